"""``lifecycle.md``: statuses and transitions of runs, tasks and campaigns, from their tables."""

from __future__ import annotations

from collections.abc import Iterable

from agentplatform.documents.markdown import code, codes, fence, section, table
from agentplatform.documents.markdown import page as whole
from runs.domain.campaigns.table import CAMPAIGN_ROWS
from runs.domain.campaigns.words import CampaignEv, CampaignStatus, PartState
from runs.domain.diagram import mermaid
from runs.domain.retry import MATRIX
from runs.domain.table import ROWS, STAY, Row
from runs.domain.tasks import TASK_ROWS, TaskRow, task_edges
from runs.domain.vocabulary import (
    ACTIVE,
    CLAIMABLE,
    LEASED_STATUSES,
    MACHINE_ROLES,
    OWNER,
    TASK_FINAL,
    TERMINAL,
    AttemptState,
    CompletionMode,
    Directive,
    Ev,
    FailureCategory,
    Gate,
    Outcome,
    Role,
    RunStatus,
    StepState,
    TaskEv,
    TaskStatus,
    Word,
)

_GROUPS = (
    ("any", frozenset(RunStatus)),
    ("any active", frozenset(ACTIVE)),
    ("any active but `PR_CREATED`", frozenset(ACTIVE) - {RunStatus.PR_CREATED}),
    ("any final", TERMINAL),
    ("any leased", LEASED_STATUSES),
    ("any leased but `LEASED`", LEASED_STATUSES - {RunStatus.LEASED}),
)
_HEADS = ("event", "from", "to", "by", "evidence", "announced as")
_INTRO = (
    "Nobody writes a status. A caller posts an event; the control plane looks up the table below, checks "
    "the evidence, and decides. The service, the FSM, the database's triggers, the API's `allowed_events` "
    "and this page read the same table, `runs/domain/table.py`."
)


def page() -> str:
    """The file."""
    moving = [row for row in ROWS if row.targets != (STAY,)]
    staying = [row for row in ROWS if row.targets == (STAY,)]
    return whole(
        "Lifecycle",
        _INTRO,
        section("A run", fence("mermaid", mermaid())),
        section("Statuses of a run", _statuses(), _groups()),
        section("Events that move a run", _created(), table(_HEADS, map(_event, moving))),
        section("Events that keep the status", table(_HEADS, map(_event, staying))),
        section("A task", fence("mermaid", _task_diagram())),
        section("Statuses of a task", _words(TaskStatus, final=TASK_FINAL)),
        section("Events of a task", table(("event", "from", "to"), [_first_move(), *map(_move, TASK_ROWS)])),
        section("Statuses of a campaign", _words(CampaignStatus)),
        section("Repositories of a campaign", _words(PartState)),
        section("Events of a campaign", table(("event", "from", "to"), list(_campaign_moves()))),
        section("Failures", _words(FailureCategory), *_retries()),
        section("Roles", _words(Role)),
        section("Gates", _words(Gate)),
        section("Directives", "A directive gives way only to one further down.", _words(Directive)),
        section("Completion modes", _words(CompletionMode)),
        section("Outcomes", _words(Outcome)),
        section("Attempts and steps", _words(AttemptState), _words(StepState)),
    )


def _statuses() -> str:
    rows = [
        (
            code(status),
            status.label,
            code(OWNER[status]),
            code(CLAIMABLE[status]) if status in CLAIMABLE else "",
            "yes" if status.is_terminal else "",
            status.sentence,
        )
        for status in RunStatus
    ]
    return table(("status", "in words", "owner", "claimed by", "final", "what it means"), rows)


def _groups() -> str:
    leased = codes(status for status in RunStatus if status in LEASED_STATUSES)
    return f"*Leased* statuses are those that a worker may hold: {leased}."


def _created() -> str:
    return f"{code(Ev.RUN_CREATED)} begins the log: it makes the run, {code(RunStatus.CREATED)}."


def _event(row: Row) -> tuple[str, ...]:
    name = code(row.event)
    if row.claim_only:
        name += " (only by a claim)"
    elif row.people:
        name += " (only by people's own endpoints)"
    targets = ", ".join("stays" if target is STAY else code(target) for target in row.targets)
    return (name, _sources(row.sources), targets, _actors(row), codes(row.needs), row.announces)


def _actors(row: Row) -> str:
    holds_lease = set(MACHINE_ROLES) <= set(row.actors)
    found = ["the lease's holder"] * holds_lease + ["the status's owner"] * row.by_owner
    found += [code(actor) for actor in row.actors if not (holds_lease and actor in MACHINE_ROLES)]
    return ", ".join(found)


def _sources(statuses: Iterable[RunStatus]) -> str:
    found = frozenset(statuses)
    for words, group in _GROUPS:
        if found == group:
            return words
    return codes(status for status in RunStatus if status in found)


def _task_diagram() -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {TaskStatus.DRAFT}: {TaskEv.TASK_CREATED}"]
    moves: dict[tuple[TaskStatus, TaskStatus], list[str]] = {}
    for event, source, target in task_edges():
        if source is not target:
            moves.setdefault((source, target), []).append(event)
    lines += [
        f"    {source} --> {target}: {' / '.join(events)}" for (source, target), events in moves.items()
    ]
    lines += [f"    {status} --> [*]" for status in TaskStatus if status in TASK_FINAL]
    return "\n".join(lines)


def _first_move() -> tuple[str, ...]:
    return (code(TaskEv.TASK_CREATED), "", code(TaskStatus.DRAFT))


def _campaign_moves() -> Iterable[tuple[str, ...]]:
    yield code(CampaignEv.CAMPAIGN_CREATED), "", code(CampaignStatus.RUNNING)
    for row in CAMPAIGN_ROWS:
        yield code(row.event), codes(row.sources), code(row.target) if row.target else "stays"


def _move(row: TaskRow) -> tuple[str, ...]:
    sources = "any" if set(row.sources) == set(TaskStatus) else codes(row.sources)
    return (code(row.event), sources, code(row.target) if row.target else "stays")


def _retries() -> tuple[str, str]:
    intro = "What follows a run that failed; the first row that fits wins, and no row means no retry."
    rows = [
        (
            code(rule.name),
            codes(rule.failed_in) if rule.failed_in else "any",
            code(rule.category),
            rule.action.replace("_", " "),
            "" if rule.at_most is None else str(rule.at_most),
            rule.hint,
        )
        for rule in MATRIX
    ]
    return intro, table(("rule", "failed in", "category", "then", "at most", "hint to the next run"), rows)


def _words(words: type[Word], final: frozenset[Word] = frozenset()) -> str:
    columns = ["word", "in words"]
    has_sentences = any(word.sentence for word in words)
    columns += ["final"] * bool(final) + ["what it means"] * has_sentences
    rows = [
        [code(word), word.label]
        + ["yes" if word in final else ""] * bool(final)
        + [word.sentence] * has_sentences
        for word in words
    ]
    return table(columns, rows)
