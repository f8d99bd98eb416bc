"""The deterministic judge: a second look at a patch that the verifiers let pass. Pure.

It never runs anything and never asks a model: the same evidence gives the same report, and each
reason can be checked by reading the patch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.checks.check_signals import is_test, settings_weakened, tests_weakened
from worker.checks.globs import matches
from worker.checks.patch import FileChange, read_patch
from worker.client.protocol import Contract, Instruction, Json

_SOURCE_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "pytest": (".py", ".pyi"),
    "unittest": (".py", ".pyi"),
    "python": (".py", ".pyi"),
    "ruff": (".py", ".pyi"),
    "mypy": (".py", ".pyi"),
    "tox": (".py", ".pyi"),
    "npm": (".js", ".jsx", ".ts", ".tsx", ".mjs", ".css", ".html", ".json"),
    "node": (".js", ".mjs", ".cjs"),
    "jest": (".js", ".jsx", ".ts", ".tsx"),
    "tsc": (".ts", ".tsx"),
    "go": (".go",),
    "cargo": (".rs",),
    "mvn": (".java", ".kt"),
    "gradle": (".java", ".kt"),
}
FEWEST_WORDS = 20
_PROSE = (".md", ".rst", ".txt", ".adoc")
_PROHIBITION = re.compile(
    r"\b(?:do not|don't|dont|never|must not|without)\s+"
    r"(?:chang|touch|edit|modif|updat|alter|remov|delet|add|rewrit)\w*\b(?P<what>[^.;\n]*(?:\.[\w*]+[^.;\n]*)*)"
    r"|\bleave\s+(?P<left>[^;\n]*?)\s+(?:alone|as (?:it is|they are)|unchanged|untouched)",
    re.IGNORECASE,
)
# "Do not change the behaviour of x.py" forbids no change of the file.
_ABOUT_MEANING = re.compile(
    r"\b(?:behaviou?r|apis?|interface|signature|semantics|meaning|output|results?|names?)\b", re.IGNORECASE
)
_PATH_WORD = re.compile(r"[`'\"]([^`'\"\s]+)[`'\"]|((?:[\w*.-]+/)+[\w*.-]*|[\w*-]+\.[A-Za-z*]\w*)")


@dataclass(frozen=True)
class Evidence:
    """What a patch is judged by. `plan` and `report` are the documents cited by their events."""

    contract: Contract
    plan: Json
    patch: str
    patch_sha256: str
    report: Json
    instructions: Sequence[Instruction] = ()
    generated_paths: Sequence[str] = ()


def judge_patch(evidence: Evidence) -> Json:
    """`{subject_sha256, verdict, confidence, reasons, feedback?, instructions_met}`.

    `fix` when the report is about another patch or has a failed check, when a file outside the
    plan or the allowed paths changed, when a test is deleted, skipped or loses assertions unasked,
    when verifier or CI settings are loosened, or when a later instruction of the form "do not
    change X" is not met. Otherwise `pass`.
    """
    changes = read_patch(evidence.patch)
    met = instructions_met(evidence, changes)
    asked = "\n".join((evidence.contract.instruction, *(item.text for item in evidence.instructions)))
    problems = [
        *_report_problems(evidence),
        *_path_problems(evidence, changes),
        *tests_weakened(changes, instruction=asked),
        *settings_weakened(changes, instruction=asked),
        *(f"instruction {number} is not met" for number, kept in met.items() if not kept),
    ]
    if not changes:
        problems.append("the patch changes nothing")
    confidence, factors = patch_confidence(evidence, changes)
    report: Json = {
        "subject_sha256": evidence.patch_sha256,
        "verdict": "fix" if problems else "pass",
        "confidence": confidence,
        "reasons": problems or _good_reasons(evidence, changes, factors),
        "instructions_met": met,
    }
    if problems:
        report["feedback"] = "Please mend this:\n" + "\n".join(f"- {text}" for text in problems)
    return report


def patch_confidence(evidence: Evidence, changes: Sequence[FileChange]) -> tuple[float, dict[str, float]]:
    """How far the evidence carries the verdict, 0 to 1, and the factors it is the product of.

        confidence = checks · cover · plan · size · tests

    - checks: 0.6 when no verifier ran; otherwise 1.0, times 0.8 if a check was flaky, times 0.85
      if a check was red on the untouched base already.
    - cover: 0.8 + 0.2 · (share of the changed lines in files that the verifiers' commands can
      exercise, told by suffix; prose counts as exercised; an unknown command counts for half).
    - plan: share of the changed lines in files that the plan names; 0.97 of it when the plan names
      everything (`**`), for such a plan foretells nothing.
    - size: 1 / (1 + changed lines / 4000): 40 lines 0.99, 400 lines 0.91, 4,000 lines 0.5.
    - tests: 1.0 when tests grew with the code or no code changed; 0.95 when code changed and no
      test did; 0.9 when existing lines of tests were rewritten.

    For a `fix`, it says how much evidence there was, not how sure the fault is.
    """
    factors = {
        "checks": _checks_factor(evidence.report),
        "cover": _cover_factor(evidence, changes),
        "plan": _plan_factor(evidence, changes),
        "size": 1 / (1 + _lines(changes) / 4000),
        "tests": _tests_factor(changes),
    }
    product = 1.0
    for value in factors.values():
        product *= value
    return round(product, 3), factors


def judge_analysis(
    *, report: str, subject_sha256: str, contract: Contract, known_paths: Sequence[str]
) -> Json:
    """The judge report of an analysis. It cannot tell whether the analysis is right.

    `fix` when the report has fewer than 20 words. Otherwise confidence = length · grounding, where
    length is min(1, words / 100), and grounding 0.9 when the report names a file of the
    repository, 0.7 when it only shares words with the title or instruction, and 0.4 otherwise.
    """
    words = re.findall(r"\w+", report)
    named = [path for path in known_paths if path in report]
    topic = {word.lower() for word in re.findall(r"\w{5,}", contract.title + contract.instruction)}
    shared = topic & {word.lower() for word in words}
    grounding = 0.9 if named else 0.7 if shared else 0.4
    result: Json = {
        "subject_sha256": subject_sha256,
        "verdict": "pass",
        "confidence": round(min(1.0, len(words) / 100) * grounding, 3),
        "reasons": [
            f"{len(words)} words",
            f"names {len(named)} files of the repository" if named else "names no file",
        ],
    }
    if len(words) < FEWEST_WORDS:
        result |= {
            "verdict": "fix",
            "reasons": [f"the report has {len(words)} words: too few to answer anything"],
            "feedback": "Write the findings out: what was looked at, what was found, where.",
        }
    return result


def instructions_met(evidence: Evidence, changes: Sequence[FileChange]) -> dict[str, bool]:
    """For later instructions that forbid changing paths; others cannot be decided from a patch."""
    met = {}
    for item in evidence.instructions:
        patterns = _forbidden_by(item.text, evidence.generated_paths) if item.number > 1 else []
        if patterns:
            met[str(item.number)] = not any(
                matches(path, patterns) for change in changes for path in change.paths
            )
    return met


def _forbidden_by(text: str, generated_paths: Sequence[str]) -> list[str]:
    patterns = []
    for match in _PROHIBITION.finditer(text):
        clause = match.group("what") or match.group("left") or ""
        if _ABOUT_MEANING.search(clause):
            continue
        patterns += [quoted or bare for quoted, bare in _PATH_WORD.findall(clause)]
        if re.search(r"\bgenerated\b", clause, re.IGNORECASE):
            patterns += generated_paths
    return [pattern.rstrip(".,") for pattern in patterns]


def _report_problems(evidence: Evidence) -> list[str]:
    if evidence.report.get("patch_sha256") != evidence.patch_sha256:
        return ["the verification report is about another patch"]
    commands = evidence.report.get("commands") or []
    failed = [item["name"] for item in commands if item.get("exit_code") != 0]
    missing = {item.name for item in evidence.contract.verifiers} - {c["name"] for c in commands}
    return [
        *(f"the check {name} failed" for name in failed),
        *(f"the check {name} did not run" for name in sorted(missing)),
    ]


def _path_problems(evidence: Evidence, changes: Sequence[FileChange]) -> list[str]:
    contract = evidence.contract
    planned = evidence.plan.get("files") or []
    kept = [*contract.forbidden_paths, *(evidence.plan.get("must_not_change") or [])]
    problems = []
    for path in (path for change in changes for path in change.paths):
        if matches(path, kept):
            problems.append(f"{path} must not change")
        elif contract.allowed_paths and not matches(path, contract.allowed_paths):
            problems.append(f"{path} is outside the allowed paths")
        elif planned and not matches(path, planned):
            problems.append(f"{path} is outside the plan")
    return problems


def _checks_factor(report: Mapping[str, Any]) -> float:
    commands = report.get("commands") or []
    if not commands:
        return 0.6
    factor = 0.8 if any(item.get("flaky") for item in commands) else 1.0
    red = any(item.get("exit_code") != 0 for item in report.get("baseline") or [])
    return factor * (0.85 if red else 1.0)


def _cover_factor(evidence: Evidence, changes: Sequence[FileChange]) -> float:
    suffixes: set[str] = set(_PROSE)
    unknown = False
    for command in evidence.report.get("commands") or []:
        known = [
            endings
            for word, endings in _SOURCE_SUFFIXES.items()
            if re.search(rf"\b{word}\b|\b{word}\d", str(command.get("command")))
        ]
        suffixes.update(*known)
        unknown = unknown or not known
    total = _lines(changes)
    covered = sum(c.lines for c in changes if c.path.endswith(tuple(suffixes)))
    share = covered / total if total else 0.0
    return 0.8 + 0.2 * max(share, 0.5 if unknown else 0.0)


def _plan_factor(evidence: Evidence, changes: Sequence[FileChange]) -> float:
    planned = evidence.plan.get("files") or list(evidence.contract.allowed_paths) or ["**"]
    total = _lines(changes)
    inside = sum(c.lines for c in changes if all(matches(path, planned) for path in c.paths))
    share = inside / total if total else 1.0
    return share * (0.97 if {"**", "*", "**/*"} & set(planned) else 1.0)


def _tests_factor(changes: Sequence[FileChange]) -> float:
    tests = [change for change in changes if is_test(change.path)]
    code = [change for change in changes if not is_test(change.path) and not change.path.endswith(_PROSE)]
    if any(change.removed for change in tests):
        return 0.9
    return 0.95 if code and not tests else 1.0


def _lines(changes: Sequence[FileChange]) -> int:
    return sum(change.lines for change in changes)


def _good_reasons(
    evidence: Evidence, changes: Sequence[FileChange], factors: Mapping[str, float]
) -> list[str]:
    commands = evidence.report.get("commands") or []
    checks = ", ".join(str(item["name"]) for item in commands) or "none"
    size = f"{len(changes)} file{'s' if len(changes) != 1 else ''}, {_lines(changes)} lines, all planned"
    return [
        size,
        f"checks passed: {checks}",
        "no test and no check setting is weakened",
        "confidence = " + " · ".join(f"{name} {value:.2f}" for name, value in factors.items()),
    ]
