"""``manage.py check`` fails where two readers of one definition disagree (lifecycle contract, 4.3 rule 8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import models

from runs.credentials import CredentialsWrong, check_credentials
from runs.domain import payloads
from runs.domain.campaigns.table import CAMPAIGN_MOVES, CAMPAIGN_ROWS, campaign_edges
from runs.domain.campaigns.words import CampaignEv, CampaignStatus, PartState
from runs.domain.policy import DEFAULTS, check_values
from runs.domain.table import MOVES, ROWS, edges, posting_roles
from runs.domain.tasks import TASK_MOVES, TASK_ROWS, task_edges
from runs.domain.vocabulary import MACHINE_ROLES, Ev, RunStatus, TaskEv, TaskStatus, Word

Graph = dict[tuple[str, str], set[str]]


@register(Tags.models)
def check_definitions(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Everything that is wrong, at once."""
    from runs.models import Campaign, Run, Task

    return [
        *_check_methods(Run, {(ev.value, a.value, b.value) for ev, a, b in edges()}),
        *_check_methods(Task, {(ev.value, a.value, b.value) for ev, a, b in task_edges()}),
        *_check_methods(Campaign, {(ev.value, a.value, b.value) for ev, a, b in campaign_edges()}),
        *_check_trigger(Run, MOVES),
        *_check_trigger(Task, TASK_MOVES),
        *_check_trigger(Campaign, CAMPAIGN_MOVES),
        *_check_events(),
        *_check_labels((RunStatus, TaskStatus, CampaignStatus, PartState, Ev, TaskEv, CampaignEv)),
        *_check_lease(),
    ]


@register
def check_repository_credentials(
    app_configs: Sequence[AppConfig] | None = None, **_: Any
) -> list[CheckMessage]:
    """A file that cannot be used is said at start, by file, table and field."""
    try:
        check_credentials(settings.REPOSITORY_CREDENTIALS)
    except CredentialsWrong as error:
        return [Error(str(error), id="agentplatform.E010")]
    return []


def _check_methods(model: type[models.Model], table: set[tuple[str, str, str]]) -> Iterable[CheckMessage]:
    """The FSM's methods and the table: the same events, from the same statuses, to the same ones."""
    wanted: Graph = {}
    for event, source, _ in table:
        wanted[event, source] = {target for name, _, target in table if name == event}
    field: Any = model._meta.get_field("status")  # noqa: SLF001  Django documents it
    found: Graph = {
        (transition.name, transition.source): set(transition.target.allowed_states)
        for transition in field.get_all_transitions(model)
    }
    for cell in sorted(wanted.keys() | found.keys()):
        if wanted.get(cell) != found.get(cell):
            yield Error(
                f"{model.__name__}.{cell[0]} from {cell[1]}: the table says {wanted.get(cell)}, "
                f"the method {found.get(cell)}.",
                id="agentplatform.E001",
            )


def _check_trigger(model: type[models.Model], moves: Iterable[tuple[Word, Word]]) -> Iterable[CheckMessage]:
    """The trigger's transitions are the table's moves."""
    wanted = {(a.value, b.value) for a, b in moves}
    options: Any = model._meta  # noqa: SLF001  Django documents it
    found = [set(t.transitions) for t in options.triggers if hasattr(t, "transitions")]
    if found != [wanted]:
        yield Error(f"The trigger of {model.__name__} does not let through what its table allows.",
                    id="agentplatform.E002")  # fmt: skip


def _check_events() -> Iterable[CheckMessage]:
    in_table = {row.event for row in ROWS} | {Ev.RUN_CREATED}
    for event in sorted(in_table ^ set(Ev)):
        yield Error(f"{event} is a word or a row, not both.", id="agentplatform.E003")
    for task_event in sorted(({row.event for row in TASK_ROWS} | {TaskEv.TASK_CREATED}) ^ set(TaskEv)):
        yield Error(f"{task_event} is a word or a row, not both.", id="agentplatform.E003")
    for campaign_event in sorted(
        ({row.event for row in CAMPAIGN_ROWS} | {CampaignEv.CAMPAIGN_CREATED}) ^ set(CampaignEv)
    ):
        yield Error(f"{campaign_event} is a word or a row, not both.", id="agentplatform.E003")
    machine = {row.event for row in ROWS if not row.people and not row.claim_only and _posted(row.event)}
    for event in sorted(machine - payloads.SHAPES.keys()):
        yield Error(f"{event} is posted by machines and has no payload shape.", id="agentplatform.E004")


def _posted(event: Ev) -> bool:
    return bool(posting_roles(event) & set(MACHINE_ROLES))


def _check_labels(words: Iterable[type[Word]]) -> Iterable[CheckMessage]:
    for kind in words:
        labels = [word.label for word in kind]
        if not all(labels) or len(set(labels)) < len(labels):
            yield Error(f"Two members of {kind.__name__} share a label.", id="agentplatform.E005")


def _check_lease() -> Iterable[CheckMessage]:
    """A lease outlives lost heartbeats."""
    for name, messages in check_values(DEFAULTS).items():
        yield Error(f"The built-in policy's {name} {messages[0]}.", id="agentplatform.E006")
