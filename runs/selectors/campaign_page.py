"""The page of one campaign: how it stands and why, its burn-down, its repositories, its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from runs.auth import Principal, may_steer
from runs.domain.campaigns.display import Standing, campaign_display, part_display
from runs.domain.campaigns.limits import waves_of
from runs.domain.campaigns.state import CampaignState
from runs.domain.campaigns.words import CampaignEv, CampaignStatus, Completion, PartState
from runs.domain.facts import Json
from runs.domain.said import short
from runs.models import Campaign, CampaignEvent, CampaignPart, Repository
from runs.selectors.campaign_burn import burn_down
from runs.selectors.campaigns import Readings, campaign_parts, strip
from runs.selectors.outcomes import PERIODS
from runs.selectors.surroundings import read_surroundings
from runs.selectors.tasks import task_rows
from runs.selectors.words import joined, money, when

PAGE: Final = 50
MOST_MOVES: Final = 30
S, P = CampaignStatus, PartState


def campaign_page(*, campaign: Campaign, principal: Principal, params: Mapping[str, str]) -> Json:
    """All of /campaigns/{id}/. At most 25 queries, however many repositories; its creator is loaded."""
    readings = Readings([campaign])
    state, standing = CampaignState.from_json(campaign.state), readings.standing(campaign)
    wait = readings.wait(campaign)
    steers = campaign.ended_at is None and may_steer(principal, campaign)
    return {
        "id": campaign.pk,
        "title": campaign.title,
        "display": campaign_display(campaign.status),
        "meta": f"asked by {campaign.created_by.get_username()}",
        "created": when(campaign.created_at),
        "wait": wait.sentence if wait else "",
        "until": when(wait.until) if wait else None,
        "actions": _actions(campaign, standing) if steers else [],
        "strip": strip(standing.counts),
        "summary": f"{standing.counts[P.DONE]} of {standing.total} done",
        "limits": _limits(state, standing, readings.spent.get(campaign.pk) or Decimal(0)),
        "outcomes": f"{reverse('outcomes')}?{urlencode({'campaign': campaign.pk, 'days': max(PERIODS)})}",
        "change": _change(campaign, state) if steers and campaign.status != S.CANCELLING else None,
        "burn": burn_down(campaign),
        "instruction": state.contract["instruction"],
        "contract": _contract(state),
        "parts": _parts(campaign, principal, params),
        "log": _log(campaign),
        "live": campaign.ended_at is None,
    }


# --- what may be done -----------------------------------------------------------------------------


def _actions(campaign: Campaign, standing: Standing) -> list[Json]:
    failed, begun = standing.counts[P.FAILED], standing.counts[P.RUNNING]
    status = CampaignStatus(campaign.status)
    if status is S.CANCELLING:
        return []
    found = []
    if failed:
        what = f"{_repositories(failed)} will get a new task."
        tone = "primary" if status is S.HALTED else ""
        found.append(_button(campaign, "retry", "Retry failed", what, tone=tone))
    if status in (S.PAUSED, S.HALTED):
        accepts = f" Its {failed} failures are accepted." if status is S.HALTED and failed else ""
        found.append(_button(campaign, "resume", "Resume", f"The campaign goes on.{accepts}"))
    if status in (S.RUNNING, S.HALTED):
        what = f"Nothing more is begun, claimed or brought out; {_tasks(begun)} asked to pause."
        found.append(_button(campaign, "pause", "Pause all", what))
    what = (
        f"Cancels the campaign and {begun} unfinished tasks; {_repositories(standing.counts[P.WAITING])} will"
        " not be begun. Pull requests that are open stay open."
    )
    found.append(_button(campaign, "cancel", "Cancel", what, tone="danger", reason_required=True))
    return found


def _button(campaign: Campaign, name: str, label: str, what: str, **more: object) -> Json:
    href = reverse("campaign_action", args=[campaign.pk, name])
    key = f"{name}-{campaign.pk}-{campaign.version}"
    return {"name": name, "label": label, "href": href, "method": "post", "confirm": what, "key": key, **more}


def _repositories(count: int) -> str:
    return "1 repository" if count == 1 else f"{count} repositories"


def _tasks(count: int) -> str:
    return "1 task is" if count == 1 else f"{count} tasks are"


def _change(campaign: Campaign, state: CampaignState) -> Json:
    limits = state.limits
    return {
        "href": reverse("campaign_action", args=[campaign.pk, "change"]),
        "key": f"change-{campaign.pk}-{campaign.version}",
        "fields": [
            _field("failure_limit_percent", "Stop at failures of, in %", limits["failure_limit_percent"]),
            _field("pull_requests_per_hour", "Pull requests an hour", limits["pull_requests_per_hour"]),
            _field("max_cost_usd", "Cap, US dollars", limits["max_cost_usd"]),
        ],
    }


def _field(name: str, label: str, value: object) -> Json:
    return {"name": name, "label": label, "value": "" if value is None else str(value)}


# --- how it stands --------------------------------------------------------------------------------


def _limits(state: CampaignState, standing: Standing, spent: Decimal) -> list[Json]:
    limits, total = state.limits, standing.total
    sizes = waves_of(limits, total)
    ended = standing.counts[P.DONE] + standing.counts[P.DELIVERED] + standing.counts[P.FAILED]
    failed = standing.counts[P.FAILED]
    pace = limits["pull_requests_per_hour"]
    cap = limits["max_cost_usd"]
    return [
        _fact("Wave", f"{state.wave} of {len(sizes)}, {state.opened} of {total} repositories"),
        _fact("Waves", ", ".join(str(size) for size in sizes)),
        _fact(
            P.FAILED.label, f"{failed} of {ended} that ended; it stops at {limits['failure_limit_percent']} %"
        ),
        _fact("Pull requests", f"at most {pace} an hour" if pace else "at any pace"),
        _fact("Spent", money(spent) + (f" of {money(cap)}" if cap is not None else ", no cap")),
        _fact("Done when", Completion(limits["completion"]).sentence),
    ]


def _fact(term: str, text: str) -> Json:
    return {"term": term, "text": text}


def _contract(state: CampaignState) -> list[Json]:
    contract = state.contract
    each = contract["budget"].get("max_cost_usd")
    out = "by itself when every guard passes" if contract["auto_pr"] else "after a review"
    rows = [
        {"term": "Repositories", "text": ", ".join(state.selection), "mono": True},
        _fact("Agent", contract["agent"]["kind"]),
        {"term": "Command", "text": contract["agent"].get("command", ""), "mono": True},
        _fact("Checks", ", ".join(check["name"] for check in contract["verifiers"])),
        _fact("Pull request", out),
        _fact("Budget of a task", money(each) if each is not None else ""),
    ]
    return [row for row in rows if row["text"]]


# --- its repositories -----------------------------------------------------------------------------


def _parts(campaign: Campaign, principal: Principal, params: Mapping[str, str]) -> Json:
    chosen = params.get("state", "")
    rows = campaign_parts(campaign).select_related("repository", "task__repository", "task__created_by")
    if chosen in list(PartState):
        rows = rows.filter(state=chosen)
    found, pager = _page(rows, params)
    return {
        "rows": _rows(found, principal),
        "pager": pager,
        "filters": _filters(campaign, chosen),
        "empty": {"title": "No repository is in this state", "action": _all(campaign)},
    }


def _page(rows: QuerySet[CampaignPart], params: Mapping[str, str]) -> tuple[list[CampaignPart], Json]:
    """Keyset by position: ``after`` or ``before`` stands in the address; nonsense is the first page."""
    before, after = (_number(params.get(name, "")) for name in ("before", "after"))
    beyond = rows.filter(position__lt=before) if before else rows.filter(position__gt=after)
    found = list(beyond.order_by("-position" if before else "position")[: PAGE + 1])
    more, found = len(found) > PAGE, found[:PAGE]
    if before:
        found.reverse()
    if not found:
        return [], {}
    kept = {"state": params["state"]} if params.get("state") else {}
    back, on = bool(after) or (bool(before) and more), more or bool(before)
    return found, {
        "previous": "?" + urlencode({**kept, "before": found[0].position}) if back else "",
        "next": "?" + urlencode({**kept, "after": found[-1].position}) if on else "",
    }


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0  # noqa: PLR2004


def _rows(parts: list[CampaignPart], principal: Principal) -> list[Json]:
    tasks = [part.task for part in parts if part.task is not None]
    shown: dict[str, Json] = {}
    if tasks:
        around = read_surroundings(repository_ids={task.repository_id for task in tasks})
        shown = {row["id"]: row for row in task_rows(tasks, principal=principal, surroundings=around)}
    return [_row(part, shown.get(part.task_id or "", {})) for part in parts]


def _row(part: CampaignPart, task: Json) -> Json:
    """A line of the list: the task's own words while it is under way, else what became of the repository."""
    own = part.state == P.RUNNING and task
    tries = f"try {part.tries}" if part.tries > 1 else ""
    accepted = "failure accepted" if part.accepted else ""
    row: Json = {
        "id": f"part-{part.position}",
        "href": task["href"] if task else reverse("repository", args=[part.repository.name]),
        "title": part.repository.name,
        "display": task["display"] if own else part_display(part.state),
        "sentence": task["sentence"] if own else short(part.reason),
        "sentence_tone": task["sentence_tone"] if own else "",
        "meta": joined(f"wave {part.wave}" if part.wave else "", tries, accepted, _cost(part)),
        "labels": [],
        "updated": when(part.ended_at or part.started_at or part.campaign.created_at),
    }
    return row | {name: task[name] for name in ("run", "result") if name in task}


def _cost(part: CampaignPart) -> str:
    return money(part.cost_usd) if part.cost_usd else ""


def _filters(campaign: Campaign, chosen: str) -> Json:
    options = [{"value": "", "label": "Any", "selected": not chosen}]
    options += [{"value": word.value, "label": word.label, "selected": word == chosen} for word in PartState]
    field = {"name": "state", "label": "State", "kind": "select", "value": chosen, "options": options}
    return {"fields": [field], "active": bool(chosen), "clear_url": reverse("campaign", args=[campaign.pk])}


def _all(campaign: Campaign) -> Json:
    return {"label": "Show all", "href": reverse("campaign", args=[campaign.pk])}


# --- its log --------------------------------------------------------------------------------------


def _log(campaign: Campaign) -> list[Json]:
    rows = list(CampaignEvent.objects.filter(campaign=campaign).order_by("-sequence")[:MOST_MOVES])
    about = {row.facts["repository_id"] for row in rows if "repository_id" in row.facts}
    names = dict(Repository.objects.filter(pk__in=about).values_list("pk", "name"))
    return [_move(row, names.get(row.facts.get("repository_id", ""), "")) for row in rows]


def _move(row: CampaignEvent, repository: str) -> Json:
    payload, facts = row.payload, row.facts
    words: dict[CampaignEv, Callable[[], str]] = {
        CampaignEv.WAVE_OPENED: lambda: f"wave {facts['wave']}: {facts['opened']} repositories in all",
        CampaignEv.PART_ENDED: lambda: joined(PartState(facts["outcome"]).label, facts.get("reason", "")),
        CampaignEv.CAMPAIGN_HALTED: lambda: facts["sentence"],
        CampaignEv.PARTS_RETRIED: lambda: _repositories(len(facts["repositories"])),
        CampaignEv.CAMPAIGN_CHANGED: lambda: ", ".join(f"{k} {v}" for k, v in payload["limits"].items()),
    }
    say = words.get(CampaignEv(row.event_type))
    said = say() if say else payload.get("reason", "")
    return {
        "sequence": row.sequence,
        "text": CampaignEv(row.event_type).label,
        "detail": joined(repository, short(said) if said else ""),
        "by": row.actor_name,
        "at": when(row.recorded_at),
        "moved": "" if row.from_status == row.to_status else CampaignStatus(row.to_status).label,
    }
