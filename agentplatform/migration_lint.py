"""What a migration may do while the version before it still serves: judged from its operations.

Old processes go on against the new tables until they are replaced, so what they insert, read and post must
still be taken; and nobody may wait long for a lock. What breaks a rule for a reason says the reason itself,
in `on_upgrade` of its class: it is printed, and stands in review.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pgtrigger.migrations as triggers
from django.db import migrations, models
from django.db.migrations.operations.base import Operation

#: The last migrations before there was a version to upgrade from.
_FIRST: Final = {"runs": "0009_periodic_tasks", "approvals": "0001_initial"}
_CELL: Final = re.compile(r"'([a-z_]+:[A-Z_]*:[A-Z_]+)'")
_MOVE: Final = re.compile(r"(?<=[{,])([A-Z_]+:[A-Z_]+)(?=[},])")
_GONE: Final = (
    migrations.RemoveField,
    migrations.RenameField,
    migrations.DeleteModel,
    migrations.RenameModel,
    migrations.AlterModelTable,
)


def problems(given: Iterable[migrations.Migration]) -> Iterator[str]:
    """One sentence for each operation that breaks a rule, in the order of the migrations."""
    words: dict[tuple[str, str], set[str]] = {}
    for migration in given:
        made = {one.name.lower() for one in migration.operations if isinstance(one, migrations.CreateModel)}
        excused = note_of(migration)
        for operation in migration.operations:
            found = list(_of_trigger(operation, words, migration.app_label))
            if not excused and not _is_of_the_first_version(migration):
                found += _of_operation(operation, made)
            for why in found:
                yield f"{migration.app_label}.{migration.name}: {operation.describe()}: {why}"


def note_of(migration: migrations.Migration) -> str:
    """What whoever upgrades should know of a migration; "" for most."""
    said: str = getattr(migration, "on_upgrade", "")
    return said


def _is_of_the_first_version(migration: migrations.Migration) -> bool:
    return migration.name <= _FIRST.get(migration.app_label, "")


def _of_operation(operation: Operation, made: set[str]) -> Iterator[str]:
    if _model_of(operation) in made:
        return
    if isinstance(operation, migrations.AddField):
        yield from _of_new_field(operation.field)
    elif isinstance(operation, _GONE):
        yield "the version before still names it; remove it one version after the code that does"
    elif isinstance(operation, migrations.AlterField):
        yield "a changed column is rewritten or checked under a lock; add a new one, fill it, change over"
    elif isinstance(operation, migrations.AddIndex) and not _is_concurrent(operation):
        yield "the table cannot be written meanwhile; use AddIndexConcurrently with atomic = False"
    elif isinstance(operation, migrations.AddConstraint):
        yield "every row is checked under a lock; add it NOT VALID and validate it in a second migration"
    elif isinstance(operation, migrations.RunSQL | migrations.RunPython):
        yield "nobody can see what it locks; say so in on_upgrade of the migration"


def _of_new_field(field: models.Field) -> Iterator[str]:
    if field.many_to_many or field.null or field.has_db_default():
        return
    yield "the version before does not fill it; give it a db_default, or let it be null"


def _is_concurrent(operation: Operation) -> bool:
    return type(operation).__name__ == "AddIndexConcurrently"


def _model_of(operation: Operation) -> str:
    name = getattr(operation, "model_name", "") or getattr(operation, "name", "") or ""
    return str(name).lower()


def _of_trigger(operation: Operation, words: dict[tuple[str, str], set[str]], app: str) -> Iterator[str]:
    """A trigger that knows fewer moves than before would refuse what the version before still posts."""
    if not isinstance(operation, triggers.AddTrigger):
        return
    key = (app, f"{operation.model_name}.{operation.trigger.name}")
    now = words_of(operation.trigger)
    if lost := words.get(key, set()) - now:
        example = min(lost)
        yield f"it no longer takes {example}; widen first, and narrow one version after the code"
    words[key] = now


def words_of(trigger: Any) -> set[str]:
    """The events or moves that a compiled trigger lets through; none for one that lists nothing."""
    text = str(trigger.install_sql)
    return {*_CELL.findall(text), *_MOVE.findall(text)}
