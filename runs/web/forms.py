"""The form of a task's contract. It only reads what was typed; the service says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django import forms

from runs.domain.agents import PRESETS
from runs.domain.facts import Json
from runs.domain.policy import BUDGET, TIMEOUTS
from runs.domain.vocabulary import CompletionMode, Risk

_DONE: Final = [
    (CompletionMode.PR_CREATED.value, "The pull request is open"),
    (CompletionMode.PATCH_READY_FOR_REVIEW.value, "The patch is judged and ready for download"),
    (CompletionMode.ANALYSIS_REPORT_CREATED.value, "A report is written; nothing is changed"),
]
_AGENTS: Final = {
    "script": "Script: a command that edits the checkout, such as a codemod",
    "command": "Command: a program that reads the instruction on its standard input",
    "claude": "Claude Code, where a worker has it",
    "codex": "Codex, where a worker has it",
    "model": "Model: the worker's own loop, with its tools",
}
_BUDGET_WORDS: Final = {
    "max_runs": "Runs of the task",
    "max_attempts": "Attempts of a run",
    "max_repairs": "Repairs of an attempt",
    "max_steps": "Steps of an attempt",
    "max_tool_calls": "Tool calls of an attempt",
    "max_outside_writes": "Writes outside, of a run",
    "max_repeats": "Repeats of one call",
    "max_cost_usd": "US dollars",
    "max_duration_seconds": "Active seconds of a run",
    "max_takeovers": "Takeovers of a run",
}


def _lines(rows: int = 2) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "class": "mono", "data-draft": ""})


class ContractForm(forms.Form):
    """Every field of the contract but verifiers, which are rows of their own."""

    title = forms.CharField(max_length=500, help_text="One line. It names the pull request.")
    repository = forms.ChoiceField(choices=())
    instruction = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 6, "data-draft": ""}),
        max_length=100_000,
        help_text="What should be different afterwards, and what must stay. Agent and judge read it.",
    )
    completion_mode = forms.ChoiceField(label="Done when", choices=_DONE)
    risk_level = forms.ChoiceField(
        label="Risk",
        choices=[(risk.value, risk.label) for risk in Risk],
        help_text="High and critical: a person approves the plan before any edit, the patch before the push.",
    )
    agent_kind = forms.ChoiceField(label="Agent", choices=list(_AGENTS.items()))
    agent_command = forms.CharField(
        label="Its command, or model",
        required=False,
        max_length=20_000,
        widget=_lines(),
        help_text="A command runs in the checkout, in the worker’s sandbox. A model is named like"
        " openai:gpt-5; empty means the worker’s own choice.",
    )
    allowed_paths = forms.CharField(
        label="May touch",
        required=False,
        widget=_lines(),
        help_text="Globs as in .gitignore, one a line. Empty: everything.",
    )
    forbidden_paths = forms.CharField(
        label="Must not touch",
        required=False,
        widget=_lines(),
        help_text="Globs, one a line. They win over the field above.",
    )
    base_branch = forms.CharField(required=False, max_length=200, help_text="Empty: the repository’s own.")
    working_directory = forms.CharField(
        label="Folder",
        required=False,
        max_length=2_000,
        help_text="Where commands run, inside the repository.",
    )
    setup = forms.CharField(
        label="Setup commands",
        required=False,
        widget=_lines(),
        help_text="One a line, run once in a fresh checkout.",
    )
    plan_approval = forms.ChoiceField(
        label="Plan",
        choices=[
            ("never", "Needs approval only when the risk asks for it"),
            ("required", "A person approves it"),
        ],
    )
    auto_pr = forms.BooleanField(
        label="Open the pull request without a review when every guard passes", required=False
    )
    priority = forms.IntegerField(min_value=0, max_value=9, initial=5, help_text="0 to 9; 9 goes first.")
    labels = forms.CharField(required=False, help_text="For people’s filters, separated by commas.")
    needs = forms.CharField(required=False, help_text="Labels that a worker must have, separated by commas.")

    def __init__(self, *args: Any, repositories: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = [(name, name) for name in repositories]
        field = self.fields["repository"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  for the type checker
        field.choices = names
        for name, default in BUDGET.items():
            self.fields[f"budget_{name}"] = forms.CharField(
                label=_BUDGET_WORDS[name], required=False, max_length=20,
                widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": str(default)}),
            )  # fmt: skip
        for name, seconds in TIMEOUTS.items():
            self.fields[f"timeout_{name}"] = forms.CharField(
                label=name.capitalize(), required=False, max_length=12,
                widget=forms.TextInput(attrs={"inputmode": "numeric", "placeholder": str(seconds)}),
            )  # fmt: skip

    def group(self, prefix: str) -> list[forms.BoundField]:
        """The bound fields whose name begins so."""
        return [self[name] for name in self.fields if name.startswith(prefix)]

    @property
    def budget_fields(self) -> list[forms.BoundField]:
        """Limits."""
        return self.group("budget_")

    @property
    def timeout_fields(self) -> list[forms.BoundField]:
        """Clocks."""
        return self.group("timeout_")

    def beside(self, name: str) -> str:
        """The field that a field of the contract is typed into."""
        return _BESIDE.get(name, name)

    def show_errors(self, errors: Mapping[str, list[str]]) -> None:
        """Put the service's words beside the fields that they are about."""
        for name, texts in errors.items():
            field = self.beside(name)
            for text in texts:
                said = text if name in self.fields else f"{name.replace('_', ' ').capitalize()}: {text}"
                self.add_error(field if field in self.fields else None, said)


_BESIDE: Final = {"agent": "agent_command"}


class VerifierForm(forms.Form):
    """One check: what it is called, what runs, how long it may take."""

    name = forms.CharField(required=False, max_length=100)
    command = forms.CharField(required=False, max_length=20_000)
    timeout_seconds = forms.CharField(
        label="Seconds", required=False, max_length=6, widget=forms.TextInput(attrs={"inputmode": "numeric"})
    )


VerifierRows = forms.formset_factory(VerifierForm, extra=3, max_num=50, absolute_max=60)


def contract_of(form: ContractForm, verifiers: Any) -> Json:
    """What was typed, in the shape of the API. A number that is none stays text; the service names it."""
    given = {**dict.fromkeys(form.fields, ""), **form.cleaned_data}
    return {
        **{name: given.get(name, "") for name in _AS_TYPED},
        "agent": _agent(given["agent_kind"], given["agent_command"].strip()),
        **{name: _split(given[name], "\n") for name in ("setup", "allowed_paths", "forbidden_paths")},
        **{name: _split(given[name], ",") for name in ("labels", "needs")},
        "verifiers": [_verifier(row) for row in _rows(verifiers) if row.get("name") or row.get("command")],
        "budget": _limits(given, "budget_"),
        "timeouts": _limits(given, "timeout_"),
    }


_AS_TYPED: Final = (
    "title",
    "repository",
    "instruction",
    "completion_mode",
    "risk_level",
    "base_branch",
    "working_directory",
    "plan_approval",
    "auto_pr",
    "priority",
)


def _rows(verifiers: Any) -> list[Json]:
    """The rows as far as they could be read."""
    return [
        {"name": "", "command": "", "timeout_seconds": "", **getattr(row, "cleaned_data", {})}
        for row in verifiers.forms
    ]


def _agent(kind: str, line: str) -> Json:
    """One field serves all kinds: a command, or the name of a model."""
    named = {"model": line} if line else {}
    if kind in PRESETS:
        return {"kind": "command", "preset": kind, **named}
    return {"kind": kind, **named} if kind == "model" else {"kind": kind, "command": line}


def with_kept_agent(data: Json, before: Json) -> Json:
    """What the form does not show of an agent of the same kind stays as it was."""
    agent, shown = data["agent"], ("command", "model", "preset")
    if agent["kind"] != before["kind"]:
        return data
    return {**data, "agent": {**{k: v for k, v in before.items() if k not in shown}, **agent}}


def _split(text: str, by: str) -> list[str]:
    return [part.strip() for part in text.split(by) if part.strip()]


def _verifier(row: Json) -> Json:
    return {
        "name": row["name"].strip(),
        "command": row["command"].strip(),
        "timeout_seconds": number_or_text(row["timeout_seconds"] or "600"),
    }


def _limits(given: Json, prefix: str) -> Json:
    found = {name.removeprefix(prefix): given[name].strip() for name in given if name.startswith(prefix)}
    return {
        name: text if name == "max_cost_usd" else number_or_text(text) for name, text in found.items() if text
    }


def number_or_text(text: str) -> int | str:
    """A whole number; what is none stays text, and the service names it."""
    return int(text) if text.isascii() and text.isdigit() else text


def as_typed(contract: Json) -> tuple[Json, list[Json]]:
    """Initial values of the form and of its verifier rows for a stored contract."""
    initial = {name: contract[name] for name in _AS_TYPED}
    initial |= {
        "agent_kind": contract["agent"].get("preset") or contract["agent"]["kind"],
        "agent_command": contract["agent"].get("command") or contract["agent"].get("model", ""),
    }
    initial |= {name: "\n".join(contract[name]) for name in ("setup", "allowed_paths", "forbidden_paths")}
    initial |= {name: ", ".join(contract[name]) for name in ("labels", "needs")}
    initial |= {f"budget_{name}": value for name, value in contract["budget"].items()}
    initial |= {f"timeout_{name}": value for name, value in contract["timeouts"].items()}
    return initial, contract["verifiers"]
