"""``commands.md``: the product's own commands, asked for their arguments."""

from __future__ import annotations

import argparse
from typing import Any

import click
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from agentplatform.documents.markdown import code, section, sentence, table
from agentplatform.documents.markdown import page as whole
from worker.__main__ import main as worker
from worker.conformance.command import conformance
from worker.submit import main as submit

_APPS = ("agentplatform", "approvals", "runs")
_HEADS = ("argument", "meaning", "default")
_INTRO = (
    "Commands of `manage.py`, the worker, and one that asks for work. Those of `manage.py` take Django's own "
    "options as well (`--help` lists them). They act on the database that `DATABASE_URL` or "
    "`AGENTPLATFORM_DATA_DIR` names."
)


def page() -> str:
    """The file."""
    programs = [
        _program("worker", worker),
        _program("worker conformance", conformance),
        _program("worker submit", submit),
    ]
    return whole("Commands", _INTRO, *(_command(name) for name in names()), *programs)


def names() -> list[str]:
    """The product's own commands of ``manage.py``."""
    return sorted(name for name, app in get_commands().items() if app in _APPS)


class _Recorder(argparse.ArgumentParser):
    """Remembers what is added to it, in order."""

    def __init__(self) -> None:
        super().__init__(add_help=False)
        self.recorded: list[argparse.Action] = []

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        action = super().add_argument(*args, **kwargs)
        self.recorded.append(action)
        return action


def _command(name: str) -> str:
    command = load_command_class(get_commands()[name], name)
    return section(code(f"manage.py {name}"), sentence(command.help), _arguments(command))


def _arguments(command: BaseCommand) -> str:
    if type(command).add_arguments.__module__.startswith("django."):
        return (
            "" if type(command).add_arguments is BaseCommand.add_arguments else "Its arguments are Django's."
        )
    recorder = _Recorder()
    command.add_arguments(recorder)  # type: ignore[arg-type]
    rows = [(_spelling(action), _meaning(action), _default(action.default)) for action in recorder.recorded]
    return table(_HEADS, rows) if rows else ""


def _spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        return code(action.dest.upper())
    takes = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return code(", ".join(action.option_strings) + (takes if not action.choices else ""))


def _meaning(action: argparse.Action) -> str:
    said = [action.help] if action.help else []
    said += [f"one of {', '.join(map(str, action.choices))}"] if action.choices else []
    said += ["required"] if action.option_strings and action.required else []
    return "; ".join(said)


def _default(value: Any) -> str:
    return "" if value in (None, False, "", []) else code(value)


def _program(name: str, command: click.Command) -> str:
    rows = [_taken_first(p) if isinstance(p, click.Argument) else _option(p) for p in command.params]
    return section(code(f"python -m {name}"), sentence(command.help), table(_HEADS, rows))


def _taken_first(argument: click.Parameter) -> tuple[str, ...]:
    return (code((argument.name or "").upper()), "required", "")


def _option(option: click.Parameter) -> tuple[str, ...]:
    assert isinstance(option, click.Option)  # noqa: S101  the only other kind of parameter
    takes = "" if option.is_flag else f" {_taken(option.type)}"
    said = "; ".join([option.help or "", *(["required"] if option.required else [])])
    default = option.default if isinstance(option.default, str | int | float) and not option.is_flag else None
    return (code(", ".join(option.opts) + takes), said, _default(default))


def _taken(kind: click.ParamType) -> str:
    return "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name.upper()
