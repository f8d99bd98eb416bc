"""What a list of runs can be narrowed to; each filter is a word in the address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.db.models import FloatField, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from runs.auth import Principal
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.outcomes import EXPIRED
from runs.domain.times import spell
from runs.domain.vocabulary import ACTIVE, PullRequestState, RunStatus
from runs.models import Run
from runs.selectors.mine import my_repositories
from runs.selectors.outcomes import of_campaign, of_label, of_team
from runs.selectors.search import runs_found
from runs.selectors.standing import runs_shown_as, runs_waiting_for
from runs.selectors.surroundings import Surroundings
from runs.selectors.teams import repositories_by_team

#: An unfinished run of which nothing was heard for so long is looked at.
QUIET: Final = timedelta(hours=1)
SENT_BACK: Final = {"verifier": "outcome__verifier_repairs", "judge": "outcome__judge_repairs"}
_COLUMNS: Final = {"status": "status", "worker": "worker_id", "task": "task_id"}


def filtered_runs(
    rows: QuerySet[Run], params: Mapping[str, str], *, principal: Principal, surroundings: Surroundings
) -> QuerySet[Run]:
    """The runs that the address asks for; a value that means nothing finds nothing. One query at most."""
    for name, column in _COLUMNS.items():
        if value := params.get(name):
            rows = rows.filter(**{column: value})
    if params.get("mine"):
        rows = rows.filter(repository_id__in=my_repositories(principal))
    if state := params.get("display"):
        known = state in list(Display)
        rows = rows.filter(runs_shown_as(Display(state), surroundings)) if known else rows.none()
    if reason := params.get("waiting_reason"):
        rows = rows.filter(runs_waiting_for(reason, surroundings))
    for name, narrow in _NARROW.items():
        if value := params.get(name, "").strip():
            found = narrow(value, surroundings)
            rows = rows.none() if found is None else rows.filter(found)
    return rows


# --- each filter: the value of the address → the condition, None where it means nothing ------------------


def _repository(value: str, _: Surroundings) -> Q:
    return Q(repository__name=value) | Q(repository_id=value)


def _failure(value: str, _: Surroundings) -> Q:
    return Q(status=EXPIRED) if value == EXPIRED else Q(failure_category=value)


def _ended_on(value: str, _: Surroundings) -> Q | None:
    begin = _day(value)
    if begin is None or begin.date() == date.max:
        return None
    return Q(outcome__ended_at__gte=begin, outcome__ended_at__lt=begin + timedelta(days=1))


def _ended_since(value: str, _: Surroundings) -> Q | None:
    begin = _day(value)
    return Q(outcome__ended_at__gte=begin) if begin else None


def _agent(value: str, _: Surroundings) -> Q:
    return Q(outcome__agent=value)


def _sent_back(value: str, _: Surroundings) -> Q | None:
    return Q(**{f"{SENT_BACK[value]}__gt": 0}) if value in SENT_BACK else None


def _slow(value: str, _: Surroundings) -> Q | None:
    status, _colon, text = value.partition(":")
    if status not in list(RunStatus) or not _is_number(text) or len(text) > 9:  # noqa: PLR2004
        return None
    return Q(pk__in=_slower(status, int(text)))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _slower(status: str, seconds: int) -> QuerySet:
    stood = Cast(KT(f"outcome__spent__{status}"), FloatField())
    return Run.objects.alias(stood=stood).filter(stood__gte=seconds).values("pk")


def _quiet(_value: str, surroundings: Surroundings) -> Q:
    return Q(status__in=[s.value for s in ACTIVE], updated_at__lt=surroundings.now - QUIET)


def _team(value: str, _: Surroundings) -> Q:
    return of_team(value, repositories_by_team())


def _campaign(value: str, _: Surroundings) -> Q:
    return of_campaign(value)


def _label(value: str, _: Surroundings) -> Q:
    return of_label(value)


#: What became of a run's pull request → the condition.
PULL_REQUEST: Final[dict[str, Q]] = {
    "opened": Q(pull_request__isnull=False),
    "merged": Q(pull_request__state=PullRequestState.MERGED.value),
    "closed": Q(pull_request__state=PullRequestState.CLOSED.value),
    "reverted": Q(pull_request__reverted_at__isnull=False),
    "red": Q(pull_request__was_red=True),
}


def _pull_request(value: str, _: Surroundings) -> Q | None:
    return PULL_REQUEST.get(value)


def _said_of_patch(*words: str) -> Q:
    found = Q()
    for word in words:
        found |= Q(outcome__verdicts__contains=[{"verdict": word}])
    return found


#: What people made of a patch that the judge passed → the condition.
VERDICT: Final[dict[str, Q]] = {
    "reviewed": _said_of_patch("approved", "changes_requested", "rejected"),
    "again": _said_of_patch("changes_requested"),
    "wrong": _said_of_patch("changes_requested", "rejected")
    | (_said_of_patch("alone") & PULL_REQUEST["closed"])
    | (Q(outcome__isnull=False) & ~Q(outcome__verdicts=[]) & PULL_REQUEST["reverted"]),
}


def _verdict(value: str, _: Surroundings) -> Q | None:
    return VERDICT.get(value)


_NARROW: Final[dict[str, Callable[[str, Surroundings], Q | None]]] = {
    "repository": _repository,
    "failure_category": _failure,
    "ended_on": _ended_on,
    "ended_since": _ended_since,
    "agent": _agent,
    "sent_back": _sent_back,
    "slow": _slow,
    "quiet": _quiet,
    "team": _team,
    "label": _label,
    "campaign": _campaign,
    "pull_request": _pull_request,
    "verdict": _verdict,
    "q": lambda value, _: runs_found(value),
}
#: Filters that come from links alone: they have no field in the form, and are said beside it.
FROM_LINKS: Final = (
    "worker", "task", "ended_on", "ended_since", "agent", "sent_back", "slow", "quiet", "mine",
    "team", "label", "campaign", "pull_request", "verdict",
)  # fmt: skip


def _day(text: str) -> datetime | None:
    """The beginning of a day, in UTC."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return datetime(found.year, found.month, found.day, tzinfo=UTC)


def said_of(name: str, value: str) -> str:
    """A filter that came from a link, in words."""
    if name == "slow":
        status, _, seconds = value.partition(":")
        known = status in list(RunStatus) and _is_number(seconds)
        if not known:
            return value
        return f"{RunStatus(status).label} for {spell(timedelta(seconds=int(seconds)))} or more"
    return _SAID[name].format(value)


_SAID: Final = {
    "worker": "worker {}",
    "task": "task {}",
    "ended_on": "ended on {} (UTC)",
    "ended_since": "ended since {} (UTC)",
    "agent": "agent {}",
    "sent_back": "sent back by the {}",
    "quiet": "nothing heard for an hour",
    "mine": "in my repositories",
    "team": "of team {}",
    "label": "labelled {}",
    "campaign": "in one campaign",
    "pull_request": "pull request {}",
    "verdict": "verdict on the judge: {}",
}


def narrowed(params: Mapping[str, str]) -> Json:
    """The filters that are set, for links that keep them."""
    names = ("status", "display", "waiting_reason", *_NARROW, "worker", "task", "mine")
    return {name: params[name] for name in names if params.get(name)}
