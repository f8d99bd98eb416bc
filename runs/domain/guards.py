"""Guards: each is a function of evidence, never of a caller's word (lifecycle contract, section 6).

All are evaluated, then judged: a page that shows one failure while three more wait helps nobody.
``passed`` is None where the evidence is missing; that counts as failed and is shown as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any, Final

from runs.domain.documents import red_before
from runs.domain.facts import Json
from runs.domain.paths import matches
from runs.domain.state import RunState
from runs.domain.vocabulary import Risk

#: While one of these fails unwaived, nobody may approve.
BLOCKING: Final = frozenset({"secret_scan", "paths"})
WAIVABLE: Final = frozenset(
    {
        "secret_scan",
        "paths",
        "tests_intact",
        "generated_files",
        "binary_files",
        "special_files",
        "invisible_characters",
    }
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What guards look at: the run, its contract, the policy in force, the reading of its patch."""

    state: RunState
    contract: Mapping[str, Any]
    policy: Mapping[str, Any]
    reading: Json | None  #: the stored reading of the current patch, None where there is none


@dataclass(frozen=True, slots=True)
class GuardResult:
    """One guard's answer. ``value`` is short, ``evidence`` says where it was read."""

    name: str
    passed: bool | None
    value: str
    evidence: str
    would_pass_if: str = ""
    waivable: bool = False

    def to_json(self) -> Json:
        """For events, answers and pages."""
        return asdict(self)


def evaluate(evidence: Evidence) -> list[GuardResult]:
    """Every guard, in the order of the contract; a waived one passes and says by whom."""
    return [_waived(name, guard(evidence), evidence.state) for name, guard in GUARDS.items()]


def evaluate_waived(evidence: Evidence, *, guard: str, by: str, reason: str, at: str) -> list[GuardResult]:
    """Every guard, as if ``guard`` were waived by that person for that reason."""
    state = evidence.state
    waivers = {**state.waivers, guard: {"by": by, "reason": reason, "at": at}}
    return evaluate(replace(evidence, state=replace(state, waivers=waivers)))


def all_passed(results: list[GuardResult]) -> bool:
    """Whether policy alone may go on."""
    return all(result.passed is True for result in results)


def blocking(results: list[Json]) -> list[Json]:
    """Stored results that forbid approving."""
    return [r for r in results if r["name"] in BLOCKING and r["passed"] is not True]


def effective_risk(
    contract_risk: str, reading: Json | None, policy: Mapping[str, Any]
) -> tuple[str, list[str]]:
    """The risk after the patch was read, and the risky paths that raised it (at least to high)."""
    touched = sorted(
        {path for path in paths_of(reading) if matches(policy["risky_paths"], path)} if reading else set()
    )
    risk = Risk(contract_risk)
    if touched and risk.rank < Risk.HIGH.rank:
        risk = Risk.HIGH
    return risk.value, touched


def paths_of(reading: Json | None) -> list[str]:
    """Old and new names of every file of a reading."""
    names: dict[str, None] = {}
    for entry in (reading or {}).get("files", ()):
        names[entry["path"]] = None
        if entry.get("old_path"):
            names[entry["old_path"]] = None
    return list(names)


def _waived(name: str, found: tuple[bool | None, str, str, str], state: RunState) -> GuardResult:
    passed, value, seen, remedy = found
    waiver = state.waivers.get(name)
    if waiver and passed is not True:
        seen = f"{seen}; waived by {waiver['by']}: {waiver['reason']}"
        return GuardResult(name, passed=True, value="waived", evidence=seen, waivable=True)
    return GuardResult(name, passed, value, seen, "" if passed else remedy, name in WAIVABLE)


# --- the guards: (passed, value, evidence, what would make it pass) -----------------------------

Found = tuple[bool | None, str, str, str]
NO_PATCH: Final[Found] = (None, "unknown", "there is no patch that was read", "A patch is made.")


def _risk(e: Evidence) -> Found:
    """The risk is low or medium, after risky paths of the patch have raised it."""
    risk, touched = effective_risk(e.state.risk_level, e.reading, e.policy)
    seen = f"the contract says {e.state.risk_level}"
    if touched:
        seen += f"; raised by {_some(touched)}"
    ok = Risk(risk).rank <= Risk.MEDIUM.rank
    return ok, risk, seen, "The risk is low or medium: leave risky paths out, or a person approves."


def _auto_pr_task(e: Evidence) -> Found:
    """The task asks for it."""
    ok = bool(e.contract.get("auto_pr"))
    value = "may go out by itself" if ok else "wants a person's approval"
    return ok, value, "the task's own auto_pr", "The task asks for it, or a person approves."


def _auto_pr_repository(e: Evidence) -> Found:
    """The repository's policy allows it."""
    ok = bool(e.policy["allow_auto_pr"])
    value = "allowed" if ok else "not allowed"
    return ok, value, "allow_auto_pr of the policy", "The repository's policy allows it."


def _verification(e: Evidence) -> Found:
    """Every required verifier passed on this very patch, none of them flaky."""
    report, patch = e.state.verification, e.state.patch
    if not report or not patch:
        return None, "unknown", "there is no verification report", "The verifiers run on this patch."
    if report["patch_sha256"] != patch["sha256"]:
        return False, "of another patch", "the report's patch_sha256", "The verifiers run on this patch."
    passed = {c["name"] for c in report["commands"] if c["exit_code"] == 0 and not c.get("timed_out")}
    flaky = [c["name"] for c in report["commands"] if c.get("flaky")]
    missing = [n for n in required_verifiers(e.contract, e.policy) if n not in passed or n in flaky]
    seen = f"{len(passed)} of {len(report['commands'])} commands passed on {patch['sha256'][:12]}"
    red = red_before(report)
    if flaky:
        seen += f"; flaky: {_some(flaky)}"
    if red:
        seen += f"; failed on the untouched base: {_some(red)}"
    if missing:
        return False, f"{_some(missing)} not passed", seen, "Every required verifier passes, without flakes."
    if red and e.policy["on_red_base"] != "continue":
        return False, "red base", seen, "The checks pass on the base branch, or a person approves."
    return True, "passed", seen, ""


def _judge(e: Evidence) -> Found:
    """A judge passed this very patch, with the policy's confidence or more."""
    judged, patch = e.state.judgement, e.state.patch
    needed = e.policy["judge_confidence"]
    if not judged or not patch or judged["subject_sha256"] != patch["sha256"]:
        return None, "unknown", "there is no judge report on this patch", "A judge passes this patch."
    confidence = judged.get("confidence")
    value = f"{judged['verdict']}, {confidence} of {needed} needed"
    seen, total = judged.get("files_seen"), max(patch.get("files", 0), judged.get("files_total") or 0)
    if seen is not None and seen < total:  # its verdict is about a part, whatever confidence it claims
        whole = "A judge that sees every file passes it, or a person approves."
        return False, f"{value}; saw {seen} of {total} files", f"judge report {judged['sha256'][:12]}", whole
    ok = judged["verdict"] == "pass" and isinstance(confidence, int | float) and confidence >= needed
    return ok, value, f"judge report {judged['sha256'][:12]}", f"The judge passes it with {needed} or more."


def _secret_scan(e: Evidence) -> Found:
    """No secret stands in an added line, and the scanner's own rules are untouched."""
    if e.reading is None or "secrets" not in e.reading:
        return NO_PATCH
    found = e.reading["secrets"]
    if config := e.reading.get("scanner_config"):
        names = _some([entry if isinstance(entry, str) else entry["path"] for entry in config])
        return False, "rules changed", f"changes the secret scanner's rules: {names}", "Leave them alone."
    if found:
        where = _some([f"{f['path']}:{f['line']} ({f['rule']})" for f in found])
        return False, f"{len(found)} found", where, "No secret stands in an added line."
    if unread := [f["path"] for f in e.reading["files"] if f.get("binary") and f["status"] != "deleted"]:
        return False, "not scanned", f"binary content: {_some(unread)}", "No binary content is added."
    removed = e.reading.get("removed_secrets") or 0
    note = f"; removes {removed}: rotate it" if removed else ""
    return True, "clean", f"{e.reading['added']} added lines{note}", ""


def _paths(e: Evidence) -> Found:
    """Old and new names of all files: none is forbidden, all match every list of allowed paths."""
    if e.reading is None:
        return NO_PATCH
    names = paths_of(e.reading)
    if not names:
        return None, "unknown", "no path was read", "The patch changes a file."
    forbidden = [*e.policy["forbidden_paths"], *e.contract.get("forbidden_paths", ())]
    bad = [n for n in names if matches(forbidden, n)]
    if bad:
        return False, "forbidden", _some(bad), "Leave these files out."
    for allowed in allowed_layers(e.contract, e.policy):
        outside = [n for n in names if not matches(allowed, n, fold=False)]
        if outside:
            return False, "outside allowed_paths", _some(outside), f"Only {_some(allowed)} change."
    return True, "allowed", f"{len(names)} paths, old and new names", ""


def _tests_intact(e: Evidence) -> Found:
    """No test or verifier setting is removed, skipped or weakened."""
    if e.reading is None or "weakenings" not in e.reading:
        return NO_PATCH
    weak = e.reading["weakenings"]
    if not weak:
        return True, "intact", "no test or verifier setting removed, skipped or weakened", ""
    where = _some([f"{w['path']}:{w.get('line') or '-'} {w['kind'].replace('_', ' ')}" for w in weak])
    return False, f"{len(weak)} weakened", where, "Tests stay as strong as they were, or a person agrees."


def _generated_files(e: Evidence) -> Found:
    """No file changes that the policy calls generated."""
    if e.reading is None:
        return NO_PATCH
    hit = [n for n in paths_of(e.reading) if matches(e.policy["generated_paths"], n)]
    if hit:
        return False, f"{len(hit)} changed", _some(hit), "Generated files are left to their generator."
    return True, "none", "generated_paths of the policy", ""


def _binary_files(e: Evidence) -> Found:
    """No binary content changes, unless the policy allows it."""
    if e.reading is None:
        return NO_PATCH
    hit = [f["path"] for f in e.reading["files"] if f.get("binary")]
    if hit and not e.policy["allow_binary"]:
        return False, f"{len(hit)} changed", _some(hit), "The policy allows binary files, or there are none."
    return True, "none" if not hit else "allowed", "the patch's own blocks", ""


def _special_files(e: Evidence) -> Found:
    """No symlink, submodule, git attribute or executable bit changes."""
    if e.reading is None or "special" not in e.reading:
        return NO_PATCH
    hit = e.reading["special"]
    if not hit:
        return True, "none", "no symlink, submodule, attributes or mode change", ""
    return (
        False,
        f"{len(hit)} changed",
        _some([f"{s['path']} ({s['kind']})" for s in hit]),
        ("No symlinks, submodules, git attributes or executable bits change."),
    )


def _invisible_characters(e: Evidence) -> Found:
    """No hidden or direction-changing character is added."""
    if e.reading is None or "invisible" not in e.reading:
        return NO_PATCH
    hit = e.reading["invisible"]
    if not hit:
        return True, "none", "added lines and names", ""
    where = _some([f"{i['path']}:{i.get('line') or '-'} {i['codepoint']}" for i in hit])
    return False, f"{len(hit)} found", where, "No hidden or direction-changing character is added."


def _budget(e: Evidence) -> Found:
    """What the run has cost is within its budget."""
    spent, limit = Decimal(e.state.used["cost_usd"]), Decimal(str(e.state.budget.get("max_cost_usd", 0)))
    value = f"${spent:f} of ${limit:f}"
    return spent <= limit, value, "costs reported in this run", "The budget is raised by a person."


def _base(e: Evidence) -> Found:
    """The patch applies to the commit it was made on, and to today's base branch."""
    base = (e.reading or {}).get("base")
    if not base or base.get("applies") is None:
        return None, "unknown", "git could not say whether it applies", "The base commit can be fetched."
    if not base["applies"]:
        return False, "does not apply", base.get("why") or "git apply refused it", "It applies to its base."
    if base.get("applies_to_head") is False:
        return False, "conflicts with today's base", base.get("why") or "", "A new run from today's base."
    if base.get("applies_to_head") is None:
        return None, "unknown", "today's base could not be read", "The remote can be read."
    return True, "applies", f"recorded base {base['commit'][:12]}, today's {base['head'][:12]}", ""


GUARDS: Final[dict[str, Callable[[Evidence], Found]]] = {
    "risk": _risk,
    "auto_pr_task": _auto_pr_task,
    "auto_pr_repository": _auto_pr_repository,
    "verification": _verification,
    "judge": _judge,
    "secret_scan": _secret_scan,
    "paths": _paths,
    "tests_intact": _tests_intact,
    "generated_files": _generated_files,
    "binary_files": _binary_files,
    "special_files": _special_files,
    "invisible_characters": _invisible_characters,
    "budget": _budget,
    "base": _base,
}

LABELS: Final = {
    "risk": "Risk",
    "auto_pr_task": "Task allows it",
    "auto_pr_repository": "Repository allows it",
    "verification": "Verification",
    "judge": "Judge",
    "secret_scan": "Secrets",
    "paths": "Paths",
    "tests_intact": "Tests intact",
    "generated_files": "Generated files",
    "binary_files": "Binary files",
    "special_files": "Special files",
    "invisible_characters": "Hidden characters",
    "budget": "Budget",
    "base": "Base",
}


def required_verifiers(contract: Mapping[str, Any], policy: Mapping[str, Any]) -> list[str]:
    """Names of the verifiers that must pass: the contract's and those the policy demands."""
    own = [v["name"] for v in contract.get("verifiers", ())]
    return list(dict.fromkeys((*own, *policy["required_verifiers"])))


def allowed_layers(contract: Mapping[str, Any], policy: Mapping[str, Any]) -> list[list[str]]:
    """Each list of allowed paths in force: a path must match all of them."""
    own = list(contract.get("allowed_paths") or ())
    return [layer for layer in (*policy["allowed_paths"], own) if layer]


def _some(names: list[str], limit: int = 5) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
