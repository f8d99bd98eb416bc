"""Running a contract's checks, and knowing how they stood before the change.

A check that fails and then passes on the same tree is flaky: shown as such, and no reason for a
repair. The verdict over a report is the control plane's.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.checks.feedback import command_feedback, summarize
from worker.client.protocol import Json, Resume, Verifier
from worker.sandbox.folder import Checkout
from worker.sandbox.process import Command, Result, run_command


@dataclass(frozen=True)
class Check:
    """One verifier's result. A flaky one has the second run's `exit_code`, which is 0."""

    verifier: Verifier
    exit_code: int
    duration_ms: int
    output: bytes
    timed_out: bool = False
    flaky: bool = False
    first_exit_code: int | None = None

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    def entry(self, output_artifact_id: str | None = None) -> Json:
        """The check in a report's `commands` or `baseline`."""
        entry: Json = {
            "name": self.verifier.name,
            "command": self.verifier.command,
            "exit_code": self.exit_code,
            "duration_ms": self.duration_ms,
            "timed_out": self.timed_out,
            "flaky": self.flaky,
        }
        if self.flaky:
            entry["first_exit_code"] = self.first_exit_code
        if output_artifact_id:
            entry["output_artifact_id"] = output_artifact_id
        return entry


class Interrupted(Exception):  # noqa: N818  named by what happened
    """A check was broken off: it says nothing about the patch."""


def checks_of(resume: Resume) -> list[Verifier]:
    """The contract's verifiers, and those that the policy requires with a command of its own."""
    found = {item.name: item for item in resume.contract.verifiers}
    for item in resume.policy.get("required_verifiers") or []:
        if isinstance(item, Mapping) and item.get("command") and item.get("name") not in found:
            name = str(item.get("name") or item["command"])
            seconds = float(item.get("timeout_seconds") or 900)
            found[name] = Verifier(name, str(item["command"]), seconds)
    return list(found.values())


def run_check(
    verifier: Verifier,
    *,
    checkout: Checkout,
    directory: Path,
    kill_after_seconds: float,
    must_stop: Callable[[], bool],
) -> Check:
    """Run it, and once more when it fails. Raises Interrupted."""
    command = checkout.command(
        ["/bin/sh", "-c", verifier.command],
        cwd=directory,
        network=False,
        timeout_seconds=verifier.timeout_seconds,
        kill_after_seconds=kill_after_seconds,
    )
    first = _run(command, must_stop)
    again = _run(command, must_stop) if not first.ok and not first.timed_out else None
    flaky = again is not None and again.ok
    shown = again if again is not None and flaky else first
    return Check(
        verifier=verifier,
        exit_code=shown.exit_code,
        duration_ms=shown.duration_ms,
        output=shown.output,
        timed_out=shown.timed_out,
        flaky=flaky,
        first_exit_code=first.exit_code,
    )


def make_report(
    *,
    patch_sha256: str,
    commands: Sequence[Json],
    baseline: Sequence[Json],
    failed: Sequence[Check],
) -> Json:
    """`{patch_sha256, commands, baseline, feedback?}`; feedback only about what failed."""
    report: Json = {
        "patch_sha256": patch_sha256,
        "commands": list(commands),
        "baseline": list(baseline),
    }
    if failed:
        details = [
            command_feedback(
                name=check.verifier.name,
                exit_code=check.exit_code,
                timed_out=check.timed_out,
                output=check.output,
            )
            for check in failed
        ]
        report["feedback"] = {"summary": summarize(details), "commands": details}
    return report


class BaselineCache:
    """How a check stood on a commit without changes, kept over runs in the work folder."""

    def __init__(self, folder: Path, resume: Resume, commit: str) -> None:
        self._folder = folder
        contract = resume.contract
        self._subject = [
            resume.repository.url,
            commit,
            contract.working_directory,
            list(contract.setup),
        ]

    def get(self, verifier: Verifier) -> Json | None:
        try:
            entry = json.loads(self._path(verifier).read_text())
        except (OSError, ValueError):
            return None
        return {**entry, "name": verifier.name, "cached": True}

    def put(self, check: Check) -> Json:
        entry = check.entry()
        self._folder.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another worker process may be reading.
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as stream:
            json.dump(entry, stream)
        Path(stream.name).replace(self._path(check.verifier))
        return {**entry, "cached": False}

    def _path(self, verifier: Verifier) -> Path:
        subject = json.dumps([*self._subject, verifier.command, verifier.timeout_seconds])
        return self._folder / (hashlib.sha256(subject.encode()).hexdigest() + ".json")


def _run(command: Command, must_stop: Callable[[], bool]) -> Result:
    result = run_command(command, must_stop=must_stop)
    if result.stopped:
        raise Interrupted
    return result
