"""What must be true afterwards, asked of the product's own database. Prints what is not, by promise.

python -m tests.chaos.audit JOURNAL EFFECTS REMOTE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import django

from tests.chaos.journal import read

Found = dict[str, list[str]]


def main(journal: Path, effects: Path, remote: Path) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentplatform.settings")
    django.setup()
    said = read(journal)
    found: Found = {
        "no call was answered by a fault": [f"{line}" for line in said if line["kind"] == "fault"],
        "each acknowledged event is in the log, once, as it was shown": list(lost_events(said)),
        "each acknowledged task, decision, remark and artifact is there, once": list(lost_answers(said)),
        "no run was leased twice at a time": list(double_leases(said)),
        "no effect happened twice": [*double_effects(effects), *double_steps(), *double_branches(remote)],
        "each run has ended or says why not, and no task failed for the faults": list(unexplained_runs()),
        "rows are what their log folds to": list(differences()),
        "the chain of each log holds": list(broken_chains()),
        "the outbox is empty": list(undelivered()),
    }
    print(json.dumps({"found": found, "figures": figures(said)}))  # noqa: T201  that is what it is for


def lost_events(said: list[dict[str, Any]]) -> Iterator[str]:
    from runs.models import RunEvent

    acknowledged = [line for line in said if line["kind"] == "event"]
    rows = RunEvent.objects.in_bulk([line["id"] for line in acknowledged])
    for line in acknowledged:
        row = rows.get(line["id"])
        if row is None:
            yield f"lost: {line}"
        elif (row.run_id, row.sequence, row.event_type, row.hash) != (
            line["run_id"], line["sequence"], line["type"], line["hash"]
        ):  # fmt: skip
            yield f"not as shown: {line}"


def lost_answers(said: list[dict[str, Any]]) -> Iterator[str]:
    from approvals.models import ApprovalRequest
    from runs.models import Artifact, RunEvent, Task
    from tests.evidence import stored_at

    for line in said:
        if line["kind"] == "task" and Task.objects.filter(title=line["title"]).count() != 1:
            yield f"{Task.objects.filter(title=line['title']).count()} tasks: {line}"
        elif (
            line["kind"] == "decision"
            and not ApprovalRequest.objects.filter(pk=line["id"], status="approved").exists()
        ):
            yield f"not decided: {line}"
        elif line["kind"] == "artifact":
            row = Artifact.objects.filter(pk=line["id"], sha256=line["sha256"]).first()
            if row is None or not stored_at(row).is_file():
                yield f"lost: {line}"
    texts = Counter(RunEvent.objects.filter(event_type="note_added").values_list("payload__text", flat=True))
    yield from (f"{count} times: {text}" for text, count in texts.items() if count > 1)
    yield from (f"lost: {line}" for line in said if line["kind"] == "remark" and not texts[line["text"]])


def double_leases(said: list[dict[str, Any]]) -> Iterator[str]:
    """Each fence of a run belongs to one lease, and was given out as that."""
    from runs.models import Lease

    given: dict[tuple[str, int], set[str]] = {}
    for line in said:
        if line["kind"] == "lease":
            given.setdefault((line["run_id"], line["fence"]), set()).add(line["id"])
    yield from (f"{key}: {ids}" for key, ids in given.items() if len(ids) > 1)
    rows = Lease.objects.order_by("run_id", "fence").values("run_id", "fence", "acquired_at", "ended_at")
    for first, second in pairwise(rows):
        is_same_run = first["run_id"] == second["run_id"]
        if is_same_run and (first["ended_at"] is None or first["ended_at"] > second["acquired_at"]):
            yield f"{first} and {second}"


def double_effects(folder: Path) -> Iterator[str]:
    for file in sorted(folder.iterdir()):
        counted = Counter(file.read_text().split())
        yield from (f"{file.name}: {operation} {n} times" for operation, n in counted.items() if n > 1)


def double_steps() -> Iterator[str]:
    """Work in a workspace dies with it and is done again; what reached outside is not."""
    from runs.models import RunEvent, Step

    for kind in ("pr_created", "completion_condition_met"):
        counted = Counter(RunEvent.objects.filter(event_type=kind).values_list("run_id", flat=True))
        yield from (f"{run}: {kind} {count} times" for run, count in counted.items() if count > 1)
    outside = set(Step.objects.filter(effect="outside").values_list("run_id", "operation_id"))
    completed = RunEvent.objects.filter(event_type="tool_completed")
    calls = Counter(completed.values_list("run_id", "payload__operation_id"))
    yield from (f"{call} completed {n} times" for call, n in calls.items() if n > 1 and call in outside)


def double_branches(remote: Path) -> Iterator[str]:
    """Each pull request is one branch with one commit, and there is no branch without one."""
    from runs.models import PullRequest

    branches = _git(remote, "for-each-ref", "--format=%(refname:short)", "refs/heads")
    found = {name for name in branches.split() if name != "main"}
    recorded = set(PullRequest.objects.values_list("branch", flat=True))
    yield from (f"{name} has no pull request" for name in sorted(found - recorded))
    yield from (f"{name} is not there" for name in sorted(recorded - found))
    for name in sorted(found & recorded):
        if (count := _git(remote, "rev-list", "--count", f"main..{name}")) != "1":
            yield f"{name} has {count} commits"


def _git(remote: Path, *words: str) -> str:
    return subprocess.run(
        ["git", f"--git-dir={remote}", *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def unexplained_runs() -> Iterator[str]:
    """A run that has not ended must say why, and nothing that happened may have failed a task."""
    from runs import auth
    from runs.domain.vocabulary import ACTIVE
    from runs.models import Person, Run, Task
    from runs.selectors.display import shown_run
    from runs.selectors.surroundings import read_surroundings

    somebody = auth.of_person(Person.objects.get(username="olga"))
    active = Run.objects.filter(status__in=[status.value for status in ACTIVE]).select_related("task")
    around = read_surroundings(repository_ids={run.repository_id for run in active})
    for run in active:
        if shown_run(run, principal=somebody, surroundings=around)["waiting_for"] is None:
            yield f"{run.pk} stands in {run.status} since {run.status_since}"
    for task in Task.objects.filter(status__in=["FAILED", "CANCELLED", "REJECTED"]):
        last = Run.objects.filter(pk=task.latest_run_id).first()
        yield f"{task.title} ended {task.status}: {last.status_reason if last else ''}"


def differences() -> Iterator[str]:
    from runs import rebuild

    for stream in rebuild.all_streams():
        yield from map(str, rebuild.differences(stream, whole=True))


def broken_chains() -> Iterator[str]:
    from runs import rebuild

    yield from map(str, rebuild.breaks())


def undelivered() -> Iterator[str]:
    from runs.models import Delivery

    for row in Delivery.objects.exclude(state=Delivery.DELIVERED).select_related("message"):
        yield f"{row.state} after {row.tries} tries: {row.message.name} for {row.consumer}: {row.error}"


def figures(said: list[dict[str, Any]]) -> dict[str, Any]:
    """What happened in between, in numbers."""
    from runs.models import Lease, Refusal, Run, RunEvent

    return {
        "acknowledged": dict(sorted(Counter(line["kind"] for line in said).items())),
        "events": RunEvent.objects.count(),
        "runs": dict(sorted(Counter(Run.objects.values_list("status", flat=True)).items())),
        "leases": Lease.objects.count(),
        "leases lost": Lease.objects.filter(end_reason="lease_lost").count(),
        "refusals": dict(sorted(Counter(Refusal.objects.values_list("code", flat=True)).items())),
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
