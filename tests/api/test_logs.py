"""Live logs: each byte once, under the lease, readable while they grow, an artifact afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from runs import auth, livelogs, service, tasks, timeouts
from runs.artifacts import artifact_read
from runs.domain.vocabulary import Ev, PersonRole, RunStatus, StepState
from runs.models import Artifact, Lease, LiveLog, LogChunk, Refusal
from tests import factories
from tests.api.calls import LeasedCaller, problem

pytestmark = pytest.mark.django_db

OPERATION = "build/1"


class Logger(LeasedCaller):
    """A worker in the middle of a step."""

    def append(self, data: bytes, offset: int, *, operation: str = OPERATION) -> Any:
        return self.post(
            f"runs/{self.run_id}/logs?operation_id={operation}&offset={offset}",
            data,
            content_type="application/octet-stream",
            lease_token=self.lease_token,
        )

    def read(self, offset: int = 0) -> Any:
        return self.get(f"runs/{self.run_id}/logs/{OPERATION}?offset={offset}")

    def whole(self) -> bytes:
        answer = self.read()
        assert answer.status_code == 200
        return bytes(answer.content)


@pytest.fixture
def holder():
    holder = factories.run_in(RunStatus.EXECUTING)
    holder.post(Ev.TOOL_REQUESTED, operation_id=OPERATION, tool="shell", arguments={}, label="Build")
    return holder


@pytest.fixture
def logger(holder):
    return Logger(holder)


def complete(holder: Any) -> None:
    holder.post(Ev.TOOL_COMPLETED, operation_id=OPERATION, outcome="succeeded")


def test_chunks_resent_overlapping_or_out_of_order_leave_each_byte_once(logger):
    text = bytes(range(256)) * 2
    assert logger.append(text[:100], 0).json() == {"operation_id": OPERATION, "offset": 100}
    assert problem(logger.append(text[200:300], 200), 409, "offset_conflict")["offset"] == 100
    assert logger.append(text[100:200], 100).json()["offset"] == 200
    assert logger.append(text[100:200], 100).json()["offset"] == 200
    assert logger.append(text[150:250], 150).json()["offset"] == 250
    assert problem(logger.append(b"x" * 100, 150), 409, "offset_conflict")["offset"] == 250
    assert logger.append(b"", 250).json()["offset"] == 250
    assert logger.whole() == text[:250]
    assert list(LogChunk.objects.order_by("start").values_list("start", flat=True)) == [0, 100, 200]


def test_a_character_cut_between_chunks_comes_out_whole(logger):
    chunks = [b"\xe2\x9c", b"\x93 na\xc3", b"\xafve \xf0\x9f", b"\x8e\x89\n"]
    offset, shown = 0, ""
    for chunk in chunks:
        logger.append(chunk, offset)
        offset += len(chunk)
        answer = logger.read(len(shown.encode()))
        shown += answer.content.decode()
        assert answer["Log-Next-Offset"] == str(len(shown.encode()))
    assert shown == "✓ naïve 🎉\n"
    inside = logger.read(1)
    assert (inside.content.decode(), inside["Log-Offset"]) == (" naïve 🎉\n", "3")


def test_bytes_that_are_no_text_break_nothing_else(logger, holder):
    data = b"a\xff\x00\x1b[31mb \xf0\x9f"
    logger.append(data, 0)
    assert logger.whole() == data[:-2]
    complete(holder)
    assert logger.whole() == data


def test_a_log_is_inert_text_and_says_where_to_go_on(logger, holder):
    logger.append(b"<script>alert(1)</script>", 0)
    growing = logger.read()
    assert growing["Content-Type"] == "text/plain; charset=utf-8"
    assert growing["X-Content-Type-Options"] == "nosniff"
    assert growing["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert (growing["Log-Next-Offset"], growing["Log-Complete"]) == ("25", "false")
    assert logger.read(25).content == logger.read(10_000).content == b""
    complete(holder)
    assert logger.read(25)["Log-Complete"] == "true"


def test_when_the_step_ends_its_log_becomes_an_artifact_and_reads_the_same(logger, holder):
    logger.append(b"one\n", 0)
    logger.append(b"two\n", 4)
    assert livelogs.livelogs_seal() == 0
    complete(holder)
    before = logger.whole()
    tasks.sweep()
    artifact = Artifact.objects.get(run_id=holder.run_id, kind="log")
    got = logger.get(f"artifacts/{artifact.pk}")
    assert b"".join(got.streaming_content) == before == logger.whole() == b"one\ntwo\n"
    assert logger.read(4).content == b"two\n"
    assert not LogChunk.objects.exists()
    assert livelogs.livelogs_seal() == 0


def test_after_its_end_a_step_takes_no_more(logger, holder):
    logger.append(b"said", 0)
    complete(holder)
    problem(logger.append(b"more", 4), 409, "not_allowed_now")
    problem(logger.append(b"x", 0, operation="never"), 422, "invalid")
    assert logger.whole() == b"said"


def test_a_worker_that_takes_over_begins_its_own_log_and_the_old_one_is_kept(logger, holder):
    logger.append(b"first worker", 0)
    Lease.objects.update(expires_at=F("acquired_at"))
    timeouts.sweep()
    assert problem(logger.append(b"late", 12), 409, "lease_lost")["fence"] == 1
    taker = factories.claim(run=holder.run)
    assert livelogs.livelogs_seal() == 1
    second = Logger(taker)
    second.append(b"second\n", 0)
    assert second.whole() == b"second\n"
    kept = LiveLog.objects.order_by("fence").values_list("fence", "size", "artifact__size")
    assert list(kept) == [(1, 12, 12), (2, 7, None)]


def test_while_a_cancel_is_pending_output_is_taken_and_after_the_end_it_is_not(logger, holder):
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=holder.run_id, event=Ev.CANCEL_REQUESTED, reason="stop", by=by)
    assert logger.append(b"stopping", 0).status_code == 200
    holder.post(Ev.RUN_CANCELLED, cleanup="done")
    problem(logger.append(b"x", 8), 409, "lease_lost")
    assert logger.read()["Log-Complete"] == "true"
    assert holder.run.steps.get(operation_id=OPERATION).state == StepState.SKIPPED


def test_a_log_is_bounded_and_says_so(logger, settings):
    settings.LIVE_LOG_MAX_BYTES = 10
    logger.append(b"12345678", 0)
    refused = problem(logger.append(b"9abcd", 8), 413, "too_large")
    assert (refused["limit_bytes"], refused["offset"]) == (10, 8)
    problem(logger.append(b"x" * (livelogs.CHUNK_MAX_BYTES + 1), 8), 413, "too_large")
    assert logger.append(b"9a", 8).json()["offset"] == 10
    assert Refusal.objects.filter(code="too_large").count() == 2


@pytest.mark.parametrize(
    "query", ["", "operation_id=&offset=0", "operation_id=a%00b", "operation_id=a&offset=-1"]
)
def test_odd_addresses_are_refused_with_what_to_do(logger, query):
    answer = logger.post(f"runs/{logger.run_id}/logs?{query}", b"x", lease_token=logger.lease_token)
    assert answer.status_code in (400, 422)


def test_where_nothing_was_logged_there_is_nothing(logger):
    problem(logger.read(), 404, "not_found")


TOKEN = b"AKIA" + b"Z7Q4M2X9T1B6K3WD"
TEXT = b"key=" + TOKEN + b" used\n"


def leaks(text: bytes) -> bool:
    return any(TOKEN[at : at + 8] in text for at in range(len(TOKEN) - 7))


@pytest.mark.parametrize("cut", [1, 4, 5, 13, 21, 23, 24, 25])
def test_a_secret_in_two_pieces_is_masked_in_every_reading_and_offsets_stay(logger, cut):
    assert logger.append(TEXT[:cut], 0).json()["offset"] == cut
    assert not leaks(logger.whole())
    assert logger.append(TEXT[cut:], cut).json()["offset"] == len(TEXT)
    assert logger.append(TEXT[:cut], 0).json()["offset"] == len(TEXT), "sent again"
    assert problem(logger.append(b"x" * cut, 0), 409, "offset_conflict")["offset"] == len(TEXT)
    assert logger.whole() == b"key=[redacted]********** used\n"
    stored = b"".join(bytes(chunk.data) for chunk in LogChunk.objects.order_by("start"))
    assert not leaks(stored)
    assert LiveLog.objects.get().masked


def test_a_key_that_comes_line_by_line_is_masked_and_the_artifact_holds_none_of_it(logger, holder):
    body = [f"MIIEpAIBAAKCAQEA{number:02d}xJ8Qv7Zk2Lw9Tn4Rb6Yc1".encode() for number in range(12)]
    lines = [b"-----BEGIN RSA PRIVATE KEY-----", *body, b"-----END RSA PRIVATE KEY-----", b"done"]
    offset = 0
    for line in lines:
        offset = logger.append(line + b"\n", offset).json()["offset"]
        assert b"xJ8Qv7Zk" not in logger.whole()
    complete(holder)
    assert livelogs.livelogs_seal() == 1
    assert logger.whole().endswith(b"*\n-----END RSA PRIVATE KEY-----\ndone\n")
    assert len(logger.whole()) == offset
    assert b"xJ8Qv7Zk" not in artifact_read(Artifact.objects.get(kind="log"))
