"""The pages of earned autonomy: evidence with its intervals, the runs behind it, and what is proposed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from runs.auth import Action, Principal, may, visible_repositories
from runs.domain.autonomy import LEAST, Rate
from runs.domain.errors import NotFound
from runs.domain.facts import Json
from runs.domain.policy import Effective
from runs.domain.times import spell
from runs.models import Repository
from runs.selectors.autonomy import (
    KINDS,
    SINCE,
    Evidence,
    Proposed,
    find_proposals,
    first_moment,
    read_evidence,
)
from runs.selectors.policies import effective_policies, repositories_below
from runs.selectors.simulation_page import policy_decisions

_NOTHING: Final = Evidence()


def autonomy_list(*, principal: Principal) -> Json:
    """``{rows, empty, days, least}``: each repository that has verdicts, proposals first. Five queries, and
    three for each proposal."""
    since = first_moment()
    rows = Repository.objects.filter(archived_at__isnull=True).select_related("policy").order_by("name")
    ids = visible_repositories(principal)
    found = list(rows if ids is None else rows.filter(pk__in=ids))
    evidence = read_evidence([row.pk for row in found], since=since)
    judged = [row for row in found if (row.pk, "") in evidence]
    policies = effective_policies(repository_ids=[row.pk for row in judged]) if judged else {}
    proposals = find_proposals(judged, evidence, policies)
    lines = [
        _line(row, evidence[row.pk, ""], policies[row.pk], proposals.get(row.pk), since) for row in judged
    ]
    return {
        "rows": sorted(lines, key=lambda line: not line["proposal"]),
        "days": SINCE.days,
        "least": LEAST,
        "empty": {
            "title": "No verdict yet",
            "hint": "Counted here is what people decide on patches that the judge passed, and how pull"
            " requests end that went out by themselves.",
        },
    }


def _line(
    row: Repository, here: Evidence, policy: Effective, proposed: Proposed | None, since: datetime
) -> Json:
    return {
        "name": row.name,
        "href": reverse("autonomy_of", args=[row.name]),
        "threshold": _threshold(policy),
        "proposal": _proposal_words(proposed) if proposed else "",
        "figures": _figures(here, row.name, since),
    }


def autonomy_of(*, principal: Principal, name: str, params: Mapping[str, str]) -> Json:
    """One repository: ``{name, figures, kinds, by, threshold, standing, proposal, decisions, may_apply}``.

    ``params``: by (label, agent). Raises ``NotFound``. At most twelve queries and those of the simulation.
    """
    row = find_repository(principal, name)
    since = first_moment()
    by = params["by"] if params.get("by") in KINDS else "label"
    here = read_evidence([row.pk], since=since).get((row.pk, ""), _NOTHING)
    kinds = read_evidence([row.pk], kind=by, since=since)
    policy = effective_policies(repository_ids=[row.pk])[row.pk]
    proposed = find_proposals([row], {(row.pk, ""): here}, {row.pk: policy}).get(row.pk)
    return {
        "name": row.name,
        "days": SINCE.days,
        "figures": _figures(here, row.name, since),
        "by": KINDS[by],
        "looks": [
            {"label": f"By {label.lower()}", "href": f"?by={word}", "current": word == by}
            for word, label in KINDS.items()
        ],
        "kinds": [
            {"name": kind, "figures": _figures(found, row.name, since, **{by: kind})}
            for (_, kind), found in sorted(kinds.items(), key=lambda pair: -pair[1].wrong.total)
        ],
        "threshold": _threshold(policy),
        "tolerated": _percent(policy.values["autonomy_error_rate"]),
        "standing": "" if proposed else _standing(here, policy),
        "proposal": _shown(proposed) if proposed else None,
        "decisions": _decisions(proposed) if proposed else None,
        "may_apply": may_change_policy(principal, row),
    }


def find_repository(principal: Principal, name: str) -> Repository:
    """The repository, if it is theirs to know. Raises ``NotFound``."""
    row = Repository.objects.select_related("policy").filter(name=name).first()
    if row is None or principal.is_machine or not may(principal, Action.READ, row.pk):
        raise NotFound
    return row


def find_proposal(row: Repository) -> Proposed | None:
    """What is proposed for a repository now. Three queries, and three where there is one."""
    evidence = read_evidence([row.pk], since=first_moment())
    policies = effective_policies(repository_ids=[row.pk])
    return find_proposals([row], evidence, policies).get(row.pk)


def may_change_policy(principal: Principal, row: Repository) -> bool:
    """Whether they may change the repository's policy: in each repository that it holds for."""
    return all(may(principal, Action.POLICY, one) for one in repositories_below(row.policy))


# --- in words ----------------------------------------------------------------------------------------


def _figures(here: Evidence, name: str, since: datetime, **narrowed: str) -> list[Json]:
    """``{label, text, note, href}``; each leads to the runs behind it."""

    def runs(**more: str) -> str:
        words = {"repository": name, "ended_since": f"{since:%Y-%m-%d}", **narrowed, **more}
        return f"{reverse('runs')}?{urlencode(words)}"

    return [
        _figure("Wrong verdicts", here.wrong, "verdicts", runs(verdict="wrong")),
        _figure("Reviewers agreed", here.agreed, "decisions", runs(verdict="reviewed")),
        _figure("Reviewed again", here.again, "reviewed runs", runs(verdict="again")),
        {
            "label": "Time to verdict",
            "text": _length(here.median_seconds),
            "note": f"median; 95 of 100 within {_length(here.most_seconds)}" if here.most_seconds else "",
            "href": runs(verdict="reviewed"),
        },
        _figure("Reverted later", here.reverted, "merged", runs(pull_request="reverted")),
    ]


def _figure(label: str, rate: Rate, of: str, href: str) -> Json:
    if not rate.total:
        return {"label": label, "text": "–", "note": f"no {of} yet", "href": href}
    return {"label": label, "text": _percent(rate.share), "note": f"{_counted(rate)} {of}", "href": href}


def _counted(rate: Rate) -> str:
    low, high = rate.interval
    return f"{_percent(low)} to {_percent(high)}, {rate.count:,} of {rate.total:,}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _length(seconds: float | None) -> str:
    return "–" if seconds is None else spell(timedelta(seconds=seconds))


def _threshold(policy: Effective) -> str:
    if not policy.values["allow_auto_pr"]:
        return "a person decides"
    return f"{policy.values['judge_confidence']:g}"


def _proposal_words(proposed: Proposed) -> str:
    word = "Raise" if proposed.proposal.raises else "Lower"
    return f"{word} it from {proposed.threshold:g} to {proposed.proposal.threshold:g}"


def _shown(proposed: Proposed) -> Json:
    """``{words, why, value, based_on, obstacle, policy}``."""
    proposal = proposed.proposal
    return {
        "words": f"{_proposal_words(proposed)}.",
        "why": evidence_words(proposed),
        "value": f"{proposal.threshold:g}",
        "based_on": proposed.based_on,
        "obstacle": proposed.obstacle,
        "policy": proposed.repository.policy.name,
    }


def evidence_words(proposed: Proposed) -> str:
    """Why it is proposed, for the page and for the audit log."""
    proposal, rate = proposed.proposal, proposed.proposal.evidence
    low, high = rate.interval
    counted = (
        f"{rate.count:,} of {rate.total:,} verdicts say that it was wrong, {_percent(rate.share)}, between "
        f"{_percent(low)} and {_percent(high)}."
    )
    if not proposal.raises:
        return f"Of what would newly go out by itself, {counted}"
    if proposal.threshold >= 1:
        no_other = f"No lower one is borne out by {LEAST} verdicts; consider allow_auto_pr: false."
        return f"Of what passes today's threshold, {counted} {no_other}"
    return f"At {proposal.threshold:g} and above, {counted}"


def _standing(here: Evidence, policy: Effective) -> str:
    total = here.wrong.total
    if not policy.values["allow_auto_pr"]:
        return "Nothing goes out by itself here (allow_auto_pr): there is no threshold to move."
    if total < LEAST:
        return f"Nothing is proposed below {LEAST} verdicts; there are {total}."
    return "The verdicts do not speak, with certainty, for another threshold."


def _decisions(proposed: Proposed) -> Json:
    return policy_decisions(policy=proposed.repository.policy, values=dict(proposed.values))
