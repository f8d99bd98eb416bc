"""The artifacts that are JSON: what they must hold when an event cites them
(REST contract, "Payloads")."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from runs.domain.errors import GuardFailed, IllegalTransition, Invalid
from runs.domain.facts import Artifact, Json
from runs.domain.vocabulary import ArtifactKind

#: What a question to a person may be about, beside what an agent asks.
RED_BASE: Final = "red_base"

#: More than any patch holds.
MOST_FILES: Final = 1_000_000

_SHA256 = re.compile(r"[0-9a-f]{64}")


def cited(artifacts: Mapping[str, Artifact], artifact_id: str, field: str, *kinds: ArtifactKind) -> Artifact:
    """The artifact of this run that a payload names; ``Invalid`` where it is none of ``kinds``."""
    artifact = artifacts.get(artifact_id)
    if artifact is None or artifact.kind not in kinds:
        words = " or ".join(kind.label.lower() for kind in kinds)
        raise Invalid({f"payload.{field}": [f"is not a {words} of this run; upload it first"]})
    return artifact


def _document(artifact: Artifact, field: str) -> Json:
    if artifact.document is None:
        raise Invalid({f"payload.{field}": ["is not a JSON object; upload strict JSON"]})
    return artifact.document


def _raise(field: str, wrong: dict[str, list[str]]) -> None:
    if wrong:
        raise Invalid({f"payload.{field}.{name}": messages for name, messages in wrong.items()})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_plan(artifact: Artifact, field: str) -> Json:
    """A plan: what it will touch, check, risk and leave alone, and when it stops."""
    document = _document(artifact, field)
    wrong: dict[str, list[str]] = {}
    for name in ("files", "verifiers", "risks", "must_not_change"):
        value = document.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            wrong[name] = ["must be a list of texts"]
    for name in ("stop_condition", "summary"):
        if not isinstance(document.get(name), str) or not document[name].strip():
            wrong[name] = ["must be text"]
    _raise(field, wrong)
    names = ("files", "verifiers", "risks", "must_not_change", "stop_condition", "summary")
    return {**artifact.brief(), **{name: document[name] for name in names}}


def read_patch_facts(artifact: Artifact, base_commit: str) -> Json:
    """The stored reading of a patch, brief enough for an event."""
    reading = artifact.facts
    base = reading.get("base") or {}
    if base.get("commit") != base_commit:
        raise GuardFailed(
            "The patch was read against another base commit.",
            guards=[_guard("base", f"read on {base.get('commit')}", f"the run's base is {base_commit}")],
        )
    if base.get("applies") is False:
        raise GuardFailed(
            "Git does not apply this patch to the run's base commit.",
            guards=[_guard("base", "does not apply", base.get("why") or "git apply refused it")],
        )
    return {
        **artifact.brief(),
        "files": len(reading["files"]),
        "added": reading["added"],
        "deleted": reading["deleted"],
        "paths": [entry["path"] for entry in reading["files"][:200]],
        "tree": reading.get("tree"),
    }


def read_verification(artifact: Artifact, field: str, *, patch_sha256: str) -> Json:
    """A verification report of this very patch, every command with its exit code."""
    document = _document(artifact, field)
    wrong: dict[str, list[str]] = {}
    digest = document.get("patch_sha256")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        wrong["patch_sha256"] = ["must be 64 hex digits"]
    commands: Any = document.get("commands")
    if not isinstance(commands, list) or not all(_is_command(item) for item in commands):
        wrong["commands"] = ["must be a list of {name, command, exit_code, duration_ms}"]
    if document.get("feedback") is not None and not isinstance(document["feedback"], str | dict):
        wrong["feedback"] = ["must be text or an object"]
    baseline: Any = document.get("baseline") or []
    if not isinstance(baseline, list) or not all(_is_command(item) for item in baseline):
        wrong["baseline"] = ["must be a list of {name, command, exit_code, duration_ms}"]
    _raise(field, wrong)
    if digest != patch_sha256:
        raise _about_another("verification", digest, patch_sha256)
    names = ("name", "exit_code", "duration_ms", "timed_out", "flaky")
    return {
        **artifact.brief(),
        "patch_sha256": digest,
        "commands": [{name: c.get(name) for name in (*names, "output_artifact_id")} for c in commands],
        "baseline": [{name: c.get(name) for name in (*names, "cached")} for c in baseline],
    }


def _is_command(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("name"), str)
        and isinstance(item.get("command"), str)
        and isinstance(item.get("exit_code"), int)
        and not isinstance(item["exit_code"], bool)
        and _is_number(item.get("duration_ms"))
    )


def passed(command: Json) -> bool:
    """Whether a command of a report passed."""
    return command["exit_code"] == 0 and not command.get("timed_out")


def red_before(report: Json | None) -> list[str]:
    """Names of the checks that failed on the untouched base; one that passed when run again is no such."""
    return [entry["name"] for entry in (report or {}).get("baseline") or () if not passed(entry)]


def read_judgement(artifact: Artifact, field: str, *, subject_sha256: str) -> Json:
    """A judge report of this very patch or analysis report."""
    document = _document(artifact, field)
    wrong: dict[str, list[str]] = {}
    if document.get("verdict") not in ("pass", "fix"):
        wrong["verdict"] = ["must be pass or fix"]
    confidence: Any = document.get("confidence")
    if not _is_number(confidence) or not 0 <= confidence <= 1:
        wrong["confidence"] = ["must be a number from 0 to 1"]
    reasons: Any = document.get("reasons")
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        wrong["reasons"] = ["must be a list of texts"]
    met = document.get("instructions_met")
    if met is not None and not (isinstance(met, dict) and all(isinstance(v, bool) for v in met.values())):
        wrong["instructions_met"] = ["must map instruction numbers to true or false"]
    seen = {name: document[name] for name in ("files_seen", "files_total") if document.get(name) is not None}
    for name, count in seen.items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_FILES:
            wrong[name] = ["must be a number of files"]
    _raise(field, wrong)
    if document.get("subject_sha256") != subject_sha256:
        raise _about_another("judge", document.get("subject_sha256"), subject_sha256)
    return {
        **artifact.brief(),
        "subject_sha256": subject_sha256,
        "verdict": document["verdict"],
        "confidence": confidence,
        "reasons": reasons[:20],
        "instructions_met": met or {},
        **seen,
    }


def feedback_of(artifact: Artifact, source: str) -> Json:
    """What the agent reads before its next try."""
    given = (artifact.document or {}).get("feedback") or ""
    return {"source": source, "text": given, "artifact_id": artifact.id}


def _about_another(guard: str, digest: Any, wanted: str) -> GuardFailed:
    return GuardFailed(
        "The report is about another subject.", guards=[_guard(guard, f"of {digest}", f"current is {wanted}")]
    )


def claims_otherwise(guard: str, value: str, evidence: str) -> GuardFailed:
    """A report that does not say what its event claims."""
    return GuardFailed(
        "The report does not say what the event claims.", guards=[_guard(guard, value, evidence)]
    )


def _guard(name: str, value: str, evidence: str) -> Json:
    return {"name": name, "passed": False, "value": value, "evidence": evidence}


def wrong_mode(event: str, status: str, mode: str, allowed: list[str]) -> IllegalTransition:
    """An event that the task's completion mode does not have."""
    return IllegalTransition(
        f"A task with completion mode {mode} does not take {event}.",
        status=status,
        event=event,
        allowed_events=allowed,
    )
