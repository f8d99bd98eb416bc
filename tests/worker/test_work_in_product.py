"""The reference worker and the product together, where either alone proves too little."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals.models import ApprovalRequest
from runs.artifacts import artifact_read
from runs.domain.vocabulary import RunStatus
from runs.models import Artifact, Run
from tests.reviewing import text
from tests.worker import product
from tests.worker.product import Product, contract
from worker.sandbox.process import OUTPUT_LIMIT_BYTES, Limits, end_marked

pytestmark = pytest.mark.django_db(transaction=True)

S = RunStatus
MIB = 1 << 20


def script(command: str) -> dict[str, Any]:
    return {"kind": "script", "command": command}


def document(artifact: Artifact) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(artifact_read(artifact))
    return found


def test_a_repository_that_names_objects_by_sha_256_is_worked_on_to_its_end(
    make_product: Callable[..., Product],
) -> None:
    made = make_product(object_format="sha256")
    run = made.submit(**{**contract(), "agent": script("sed -i s/two/three/ notes.txt")})
    made.work()
    assert product.status(run) == S.WAITING_FOR_APPROVAL
    made.decide(run)
    made.push()
    assert product.status(run) == S.SUCCEEDED
    state = Run.objects.get(pk=run.pk).state
    assert [len(state["base_commit"]), len(state["pull_request"]["commit_sha"])] == [64, 64]
    assert made.in_branch(run, "notes.txt") == "one\nthree\n"


def test_what_a_reviewer_asks_for_is_judged_and_shown_beside_the_words(
    make_product: Callable[..., Product],
) -> None:
    made = make_product()
    # The second time it does as the reviewer said.
    command = 'sed -i s/two/three/ notes.txt; [ -s "$AGENT_FEEDBACK_FILE" ] || echo more > more.txt'
    run = made.submit(**{**contract(), "agent": script(command)})
    made.work()
    made.decide(run, "request_changes", comment="Do not change more.txt")
    made.work()
    assert document(product.artifacts(run, "judge_report")[-1])["instructions_met"] == {"2": True}
    request = ApprovalRequest.objects.get(run=run, status="open")
    client = Client()
    client.force_login(made.reviewer)
    assert "Do not change more.txt met" in text(client.get(reverse("approval", args=[request.pk])))


# Each is wild while the notes say so: not on the base, and not after the repair.
WILD = "! grep -q wild notes.txt || "
STUBBORN = "{ trap '' TERM; while :; do sleep 1; done; }"
FORKS = (
    "{ f() { trap '' TERM; [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep 1000; };"
    " (setsid sh -c 'trap \"\" TERM; exec sleep 1000' >/dev/null 2>&1 &) ; f 4 & exit 0; }"
)
HOARDS = "while :; do head -c 4000000 /dev/zero > f$i; i=x$i; done"
FLOODS = "head -c {} /dev/zero | tr '\\000' x"
CALM = 'if [ -s "$AGENT_FEEDBACK_FILE" ]; then sed -i s/wild/calm/ notes.txt; else echo wild >> notes.txt; fi'


@pytest.mark.parametrize("printed", [20 * MIB, pytest.param(1000 * MIB, marks=pytest.mark.long)])
def test_checks_that_run_wild_are_contained_reported_and_cleaned_up(
    make_product: Callable[..., Product], tmp_path: Path, printed: int
) -> None:
    made = make_product()
    wild = {"floods": FLOODS.format(printed), "forks": FORKS, "stubborn": STUBBORN, "hoards": HOARDS}
    verifiers = [{"name": n, "command": WILD + line, "timeout_seconds": 60} for n, line in wild.items()]
    verifiers[2]["timeout_seconds"] = 4
    run = made.submit(**{**contract(), "agent": script(CALM), "verifiers": verifiers})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made.work(limits=Limits(disk_bytes=30 * MIB))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 64 * MIB
    first, second = (document(report) for report in product.artifacts(run, "verification_report"))
    ended = {command["name"]: command for command in first["commands"]}
    assert {name: command["exit_code"] == 0 for name, command in ended.items()} == {
        "floods": True, "forks": True, "stubborn": False, "hoards": False,
    }  # fmt: skip
    assert ended["stubborn"]["timed_out"] is True
    outputs = [Artifact.objects.get(pk=command["output_artifact_id"]) for command in first["commands"]]
    assert max(output.size for output in outputs) < OUTPUT_LIMIT_BYTES + 100
    assert b"bytes left out" in artifact_read(outputs[0])
    assert "over the limit on disk" in json.dumps(first["feedback"])
    # What they left behind neither lives on nor weighs on the repair and on the checks after it.
    assert [command["exit_code"] for command in second["commands"]] == [0, 0, 0, 0]
    assert product.status(run) == S.WAITING_FOR_APPROVAL
    assert list((tmp_path / "sandboxes" / "runs").iterdir()) == []
    (sandbox,) = (event.payload["sandbox_id"] for event in product.events(run, "sandbox_ready"))
    assert end_marked(sandbox, seconds=0)
