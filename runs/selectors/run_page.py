"""The page of one run: head, whose move it is, budget, facts, receipt."""

from __future__ import annotations

from collections import Counter
from typing import Final

from django.db.models import Count
from django.urls import reverse

from runs.auth import Action, Principal, may
from runs.domain.clocks import Deadline
from runs.domain.facts import Json, moment, stamp
from runs.domain.said import plural
from runs.domain.state import RunState
from runs.domain.times import clock
from runs.domain.vocabulary import CompletionMode, PullRequestState, RunStatus
from runs.models import Lease, PullRequest, Refusal, Run
from runs.selectors.campaigns import campaign_link
from runs.selectors.display import shown_run
from runs.selectors.links import buttons, page_href
from runs.selectors.receipts import receipt
from runs.selectors.retries import retry_rows
from runs.selectors.runs import failed_sentence
from runs.selectors.surroundings import Surroundings, read_surroundings
from runs.selectors.words import brief_id, joined, lowered, money, risk_badge, when, worked

TABS: Final = (("timeline", "Timeline"), ("steps", "Steps"), ("patch", "Patch"), ("evidence", "Evidence"))
#: An analysis changes nothing: what it leaves is a report.
TABS_OF_ANALYSIS: Final = (*TABS[:2], ("report", "Report"), *TABS[3:])


def result_tab(run: Run) -> str:
    """Where the result of a run is read: its report, its patch, or the evidence for what was pushed."""
    tabs = {
        CompletionMode.ANALYSIS_REPORT_CREATED: "report",
        CompletionMode.PATCH_READY_FOR_REVIEW: "patch",
        CompletionMode.PR_CREATED: "evidence",
    }
    return tabs[CompletionMode(run.task.completion_mode)]


def run_head(*, run: Run, principal: Principal, tab: str) -> Json:
    """All of the page but its tab.

    Eight queries, one more where it is not its task's first, one for its pull request, one for its campaign.
    """
    state = RunState.from_json(run.state)
    surroundings = read_surroundings(repository_ids=[run.repository_id]).for_rows([run])
    shown = shown_run(run, principal=principal, surroundings=surroundings, hrefs=page_href)
    lease = Lease.objects.filter(run=run, ended_at__isnull=True).first()
    here = reverse("run", args=[run.pk])
    return {
        "id": run.pk,
        "href": here,
        "title": run.task.title,
        "display": lowered(shown["display"]),
        "meta": _meta(run, state),
        "campaign": campaign_link(run.task, principal),
        "heard": when(lease.heartbeat_at) if lease else None,
        "reported": when(moment(state.progress_at)) if lease and state.progress_at else None,
        "risk": risk_badge(state.effective_risk),
        "actions": buttons(shown["display"]["actions"], here=here, key=f"again-{run.pk}"),
        "tabs": _tabs(run, state, here, tab),
        "move": _move(shown, state, surroundings, run),
        "budget": _budget(state, surroundings, run.task.contract["agent"]["kind"]),
        "facts": _facts(run, state),
        "receipt": receipt(state),
        "failure": _failure(state),
        "retry": retry_rows(state),
        "pull_request": _pull_request(state) if state.pull_request else None,
        "may_note": may(principal, Action.NOTE, run.repository_id),
        "note_key": f"note-{principal.id}-{run.version}",
        "note_href": reverse("run_action", args=[run.pk, "note"]),
        "live": not state.is_terminal,
    }


def _meta(run: Run, state: RunState) -> str:
    attempt = ""
    if state.attempt:
        repairs = state.attempt["repairs"]
        attempt = f"attempt {state.attempt['number']}"
        attempt += f", repair {repairs} of {state.budget.get('max_repairs')}" if repairs else ""
    return joined(_number(run), attempt, f"worker {state.holder['worker_name']}" if state.holder else "")


def _number(run: Run) -> str:
    """``run 1``; ``run 3, after 1 failed and 1 cancelled``. One query where there were runs before."""
    number = f"run {run.attempt_no}"
    if run.attempt_no <= 1:
        return number
    before = Run.objects.filter(task_id=run.task_id, attempt_no__lt=run.attempt_no)
    counts = Counter(_ENDED.get(status, "") for status in before.values_list("status", flat=True))
    ended = [f"{counts[word]} {word}" for word in ("failed", "cancelled", "completed") if counts[word]]
    return f"{number}, after {' and '.join(ended)}" if ended else number


_ENDED: Final = {
    RunStatus.FAILED.value: "failed",
    RunStatus.EXPIRED.value: "failed",
    RunStatus.CANCELLED.value: "cancelled",
    RunStatus.SUCCEEDED.value: "completed",
}


def _tabs(run: Run, state: RunState, here: str, tab: str) -> list[Json]:
    analysis = state.completion_mode == CompletionMode.ANALYSIS_REPORT_CREATED
    offered = TABS_OF_ANALYSIS if analysis else TABS
    tabs = [{"label": label, "href": f"{here}?tab={name}", "current": name == tab} for name, label in offered]
    return [
        *tabs,
        {"label": f"Events {run.version:,}", "href": f"{here}?tab=events", "current": tab == "events"},
    ]


# --- whose move ----------------------------------------------------------------------------------

_THEN: Final = {
    "queue": "If nobody takes it by {at}, the run expires.",
    "cancel": "Without an answer by {at} it is cancelled all the same.",
    "pause": "Without an answer by {at} the lease is withdrawn.",
    "run": "At {at} its active time is used up and the run fails.",
    "step": "If the step says nothing until {at}, it counts as timed out and the agent goes on.",
    "attempt": "At {at} the attempt ends as failed; a new one starts if the budget allows.",
}
_OVERDUE: Final = {
    "cancel": "Without a decision by then the run is cancelled.",
    "fail": "Without a decision by then the run fails.",
    "escalate": "Without a decision by then the review escalates.",
}


def _move(shown: Json, state: RunState, surroundings: Surroundings, run: Run) -> Json | None:
    """Whose move it is, and what happens by itself when they make none."""
    wait = shown["waiting_for"]
    if wait is None:
        return None
    working = wait["reason"] == "working" and state.holder
    lead = f"{state.holder['worker_name']}’s move." if working and state.holder else wait["sentence"]
    deadline = surroundings.deadline(state, run.task.contract)
    silent = deadline is None or wait["reason"] in ("backoff", "stopping")
    then = "" if silent or deadline is None else _then(deadline, surroundings, state)
    return {"text": f"{lead} {then}".strip(), "since": when(wait["since"])}


def _then(deadline: Deadline, surroundings: Surroundings, state: RunState) -> str:
    text = _THEN.get(deadline.scope, "")
    if deadline.scope == "attempt" and state.attempt is None:
        text = "If nothing is reported until {at}, the lease is withdrawn and another worker goes on."
    if deadline.scope == "approval":
        policy = surroundings.policies[state.repository_id].values
        text = _OVERDUE[policy["on_approval_timeout"]]
    return text.format(at=clock(stamp(deadline.at), now=stamp(surroundings.now)))


# --- panels --------------------------------------------------------------------------------------


def _budget(state: RunState, surroundings: Surroundings, kind: str) -> Json:
    used, limits, attempt = state.used, state.budget, state.attempt or {}
    cost = float(used["cost_usd"]), float(limits.get("max_cost_usd", 0))
    active = float(used["active_seconds"])
    if state.active_since:
        active += (surroundings.now - moment(state.active_since)).total_seconds()
    rows = [_bar("Cost", f"{money(used['cost_usd'])} of {money(cost[1])}{_unknown(used)}", *cost)]
    for label, name, limit in _COUNTED:
        count, top = (attempt or used)[name], int(limits.get(limit) or 0)
        if name == "steps" and not count and kind in WITHOUT_MODEL:
            continue  # a program decides without a model
        rows.append(_bar(label, f"{count} of {top}", count, top, bar=False))
    longest = limits.get("max_duration_seconds", 0)
    # Counting seconds would make every live answer a new one, and each poll a whole page part.
    spent = "under a minute" if active < MINUTE else worked(active)
    rows.append(_bar("Active time", f"{spent} of {worked(longest)}", active, longest, bar=False))
    return {"rows": rows}


MINUTE: Final = 60
WITHOUT_MODEL: Final = ("script", "command")


def _unknown(used: Json) -> str:
    """Cost that nobody reported is not nothing."""
    count = used.get("unknown_costs", 0)
    return f", and {plural(count, 'decision')} of unknown cost" if count else ""


_COUNTED: Final = (
    ("Steps", "steps", "max_steps"),
    ("Tool calls", "tool_calls", "max_tool_calls"),
    ("Repairs", "repairs", "max_repairs"),
)


def _bar(label: str, text: str, value: float, limit: float, *, bar: bool = True) -> Json:
    row: Json = {"label": label, "text": text}
    if limit and label != "Repairs" and value >= 0.9 * limit:
        row["tone"] = "bad" if value >= limit else "warn"
    return {**row, "value": round(value, 4), "max": round(limit, 4)} if bar and limit else row


def _facts(run: Run, state: RunState) -> list[Json]:
    task = run.task
    contract = task.contract
    repository = reverse("repository", args=[run.repository.name])
    rows: list[Json] = [
        {"term": "Task", "text": task.title[:80], "href": reverse("task", args=[task.pk])},
        {
            "term": "Repository",
            "text": run.repository.name,
            "href": repository,
        },
        {"term": "Agent", "text": joined(contract["agent"]["kind"], state.model)},
        {"term": "Instruction", "text": str(state.instruction_no)},
        {"term": "Policy", "text": state.policy_version},
    ]
    if state.base_commit:
        base = f"{contract['base_branch']}@{state.base_commit[:10]}"
        rows.append({"term": "Base", "text": base, "mono": True, "copy_text": state.base_commit})
    for term, at in (("Started", state.started_at), ("Ended", state.completed_at)):
        if times := when(at):
            rows.append({"term": term, "text": times["exact"], "time": times["iso"]})
    if refused := _refused(run.pk):
        rows.append({"term": "Refused calls", "text": refused})
    rows.append({"term": "Id", "text": brief_id(run.pk), "mono": True, "copy_text": run.pk})
    return rows


def _refused(run_id: str) -> str:
    """``2 lease lost, 1 run terminal``: calls that left no trace in the log. One query."""
    counted = (
        Refusal.objects.filter(run_id=run_id).values_list("code").annotate(n=Count("pk")).order_by("code")
    )
    return ", ".join(f"{n:,} {code.replace('_', ' ')}" for code, n in counted)


def _failure(state: RunState) -> Json | None:
    """Why it ended badly and what follows, in words."""
    if state.status not in (RunStatus.FAILED, RunStatus.EXPIRED):
        return None
    failure, retry = state.failure or {}, state.retry or {}
    evidence = failure.get("evidence_artifact_id")
    return {
        "text": failed_sentence(state),
        "then": retry.get("reason", ""),
        "href": reverse("artifact", args=[evidence]) if evidence else "",
    }


def _pull_request(state: RunState) -> Json:
    """What was opened, and how it stands as the provider last said. One query."""
    opened = state.pull_request or {}
    row = PullRequest.objects.filter(run=state.id).first()
    url = opened["url"]
    return {
        "stands": _stands(row) if row else "",
        "tone": "bad" if row and (row.checks == "failed" or row.reverted_at) else "quiet",
        "seen": when(row.seen_at) if row else None,
        "branch": opened["branch"],
        "commit": opened["commit_sha"],
        "href": url if url.startswith(("https://", "http://")) else "",
        "place": url,
    }


def _stands(row: PullRequest) -> str:
    return joined(
        PullRequestState(row.state).label,
        f"reverted by {row.reverted_by[:12]}" if row.reverted_at else "",
        f"checks {row.checks}" if row.checks else "",
    )
