"""The client library: the same key until there is an answer, typed refusals, nothing leaked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.client.errors import DirectivePending, LeaseLost, Refused, Unavailable
from worker.client.plane import ControlPlane, LeasedRun, read_token
from worker.client.transport import Patience
from worker.conformance.stand_in import StandIn

QUICK = Patience(attempts=5, seconds=5, wait_initial=0.01, wait_max=0.02)


@pytest.fixture
def client(plane: StandIn) -> Iterator[ControlPlane]:
    made = ControlPlane(url=plane.url, token=plane.token, patience=QUICK)
    yield made
    made.close()


@pytest.fixture
def leased(client: ControlPlane) -> LeasedRun:
    claim = client.claim(roles=("worker",), labels=(), wait_seconds=0, key="k")
    assert claim is not None
    return client.leased(claim.lease)


def keys(plane: StandIn, suffix: str) -> list[str]:
    return [headers["Idempotency-Key"] for _, path, headers in plane.calls if path.endswith(suffix)]


def times(plane: StandIn, kind: str, path: str, count: int) -> None:
    """Break the next `count` calls to this path."""
    left = [count]

    def broken(_: str, called: str) -> str | None:
        if called.endswith(path) and left[0]:
            left[0] -= 1
            return kind
        return None

    plane.break_call = broken


@pytest.mark.parametrize("kind", ["lose", "away"])
def test_an_event_is_repeated_under_the_same_key_and_recorded_once(
    plane: StandIn, leased: LeasedRun, kind: str
) -> None:
    times(plane, kind, "/events", 2)
    answer = leased.post("worker_started", {"worker_version": "1"})
    assert answer.status == "PREPARING"
    assert answer.replayed is (kind == "lose")
    assert len(set(keys(plane, "/events"))) == 1
    assert len(keys(plane, "/events")) == 3
    assert plane.types() == ["worker_started"]


def test_a_batch_is_repeated_under_the_same_keys(plane: StandIn, leased: LeasedRun) -> None:
    times(plane, "lose", "/events/batch", 1)
    events = [
        ("worker_started", {"worker_version": "1"}),
        ("sandbox_ready", {"sandbox_id": "s", "base_commit": "0" * 40}),
    ]
    assert leased.post_batch(events).status == "CONTEXT_BUILDING"
    assert plane.types() == ["worker_started", "sandbox_ready"]


def test_an_answer_lost_on_a_claim_is_got_again_with_the_same_key(
    plane: StandIn, client: ControlPlane
) -> None:
    times(plane, "lose", "leases", 1)
    with pytest.raises(Unavailable):
        client.claim(roles=(), labels=(), wait_seconds=0, key="claim-1")
    claim = client.claim(roles=(), labels=(), wait_seconds=0, key="claim-1")
    assert claim is not None
    assert claim.lease.fence == plane.fence == 1


def test_a_file_is_uploaded_again_from_its_beginning(
    plane: StandIn, leased: LeasedRun, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * (3 << 20))
    times(plane, "away", "/artifacts", 1)
    artifact = leased.upload("log", big, content_type="text/plain")
    assert artifact.size == 3 << 20
    assert plane.stored("log") == [big.read_bytes()]


def test_patience_ends(plane: StandIn, leased: LeasedRun) -> None:
    plane.break_call = lambda method, path: "away"
    with pytest.raises(Unavailable):
        leased.post("worker_started", {"worker_version": "1"})
    assert len(keys(plane, "/events")) == QUICK.attempts


def test_refusals_are_typed_and_not_repeated(plane: StandIn, leased: LeasedRun) -> None:
    with pytest.raises(Refused) as refused:
        leased.post("judge_passed", {})
    assert refused.value.code == "illegal_transition"
    assert refused.value.problem["from"] == "LEASED"
    plane.state.directive = "pause"
    with pytest.raises(DirectivePending) as pending:
        leased.post("tool_requested", {})
    assert pending.value.directive == "pause"
    plane.take_lease_away()
    with pytest.raises(LeaseLost):
        leased.heartbeat(timeout=1)
    assert len(plane.calls) == 4


def test_no_token_is_logged_or_shown(
    plane: StandIn, leased: LeasedRun, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    times(plane, "away", "/events", 1)
    leased.post("worker_started", {"worker_version": "1"})
    shown = caplog.text + repr(leased.lease)
    assert leased.lease.token not in shown
    assert plane.token not in shown


def test_a_token_file_holds_one_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("agp_1\n")
    assert read_token(path) == "agp_1"
    path.write_text("agp_1 agp_2\n")
    with pytest.raises(ValueError, match="one token"):
        read_token(path)
