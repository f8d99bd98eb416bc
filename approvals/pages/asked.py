"""What was asked beside what was done, both computed: never what the agent says of itself."""

from __future__ import annotations

from approvals.pages.review import Review
from runs.domain.facts import Json, moment
from runs.domain.state import RunState
from runs.selectors.commands import contract_commands
from runs.selectors.words import money, named
from runs.templatetags.ui import duration

#: Isolation as the worker reports it: what stood between the work and the worker's machine.
_WHERE = {
    "none": "not isolated from the worker's machine",
    "process": "in a process of its own, not isolated from the worker's machine",
    "namespace": "isolated in a namespace",
    "container": "isolated in a container",
    "vm": "isolated in a virtual machine",
}


def asked(review: Review) -> Json:
    contract = review.task.contract
    limits = []
    if paths := contract["allowed_paths"]:
        limits.append(f"only {named(paths)}")
    if paths := contract["forbidden_paths"]:
        limits.append(f"never {named(paths)}")
    if verifiers := [verifier["name"] for verifier in contract["verifiers"]]:
        limits.append(f"verified by {named(verifiers)}")
    limits.append(f"up to {money(review.state.budget.get('max_cost_usd'))}")
    shown = [entry for entry in review.task.instructions if entry["number"] <= review.state.instruction_no]
    met = _met(review)
    instructions = [
        {**entry, "moment": moment(entry["at"]), "met": met.get(str(entry["number"]))} for entry in shown
    ]
    commands = contract_commands(contract)
    return {
        "instructions": instructions,
        "judged": bool(met),
        "limits": ", ".join(limits),
        "commands": commands,
    }


def _met(review: Review) -> Json:
    """Which instructions the patch meets, by number, as its judge reports; {} where nobody judged that."""
    judged = review.state.judgement or {}
    about_this = judged.get("subject_sha256") == review.request.subject_sha256
    return judged.get("instructions_met") or {} if about_this else {}


def done(review: Review) -> Json:
    reading, base = review.reading, review.reading.get("base") or {}
    files = reading.get("files", [])
    fits = base.get("applies_to_head")
    moved = "which it still fits" if fits else "which has moved into conflict"
    return {
        "files": len(files),
        "added": reading.get("added", 0),
        "deleted": reading.get("deleted", 0),
        "branch": review.task.contract["base_branch"],
        "commit": (base.get("commit") or "")[:8],
        "moved": "whose present state is unknown" if fits is None else moved,
        "has_plan": bool(review.state.plan),
        "plan_is_open": "**" in (review.state.plan or {}).get("files", ()),
        "planned": len(files) - len(review.unplanned),
        "unplanned": review.unplanned[:20],
        "risky": review.risky[:20],
        "work": _work(review),
    }


def _work(review: Review) -> str:
    state = review.state
    repairs = int(state.used["repairs"])
    parts = [
        "1 repair" if repairs == 1 else f"{repairs} repairs",
        f"{duration(state.used['active_seconds'])} of work",
        money(state.used["cost_usd"]),
    ]
    kind = review.task.contract["agent"].get("kind", "agent")
    where = _WHERE.get(state.isolation, _WHERE["none"])
    return " · ".join([*parts, f"{kind} run by {_maker(state)}, {where}"])


def _maker(state: RunState) -> str:
    """Whose worker made what is shown; whoever holds the run later may be another."""
    return str((state.patch or {}).get("by") or state.worker_name or "an unknown worker")
