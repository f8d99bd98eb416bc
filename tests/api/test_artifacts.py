"""Evidence: verified, bounded, under the lease, read by the control plane, never active content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from django.conf import settings

from runs import service
from runs.auth import of_person
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import Artifact, Refusal
from tests import factories
from tests.api.calls import Caller, LeasedCaller, problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def holder():
    return factories.run_in(RunStatus.EXECUTING)


@pytest.fixture
def caller(holder):
    return LeasedCaller(holder)


def incoming() -> list[Path]:
    return list((Path(settings.ARTIFACT_DIR) / "incoming").iterdir())


def test_bytes_are_stored_once_and_come_back_as_they_were(caller):
    data = b"\x00\xff<script>alert(1)</script>" * 1000
    first = caller.upload("output", data, content_type="text/html")
    again = caller.upload("output", data)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["sha256"] == hashlib.sha256(data).hexdigest()
    got = caller.get(f"artifacts/{first.json()['id']}")
    assert b"".join(got.streaming_content) == data
    assert got["Content-Type"] == "application/octet-stream"
    assert got["Content-Disposition"].startswith("attachment;")
    assert got["X-Content-Type-Options"] == "nosniff"
    assert got["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert incoming() == []


def test_other_bytes_than_announced_are_refused_and_leave_nothing(caller):
    digest = "sha-256=:" + "A" * 43 + "=:"
    refused = problem(caller.upload("output", b"x", content_digest=digest), 422, "invalid")
    assert "Content-Digest" in refused["errors"]
    assert not Artifact.objects.filter(kind="output").exists()
    assert incoming() == []
    assert Refusal.objects.get().content_sha256 == "0" * 64


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"content_digest": ""}, "Content-Digest"),
        ({"content_digest": "sha-256=:!:"}, "Content-Digest"),
        ({"content_digest": "md5=:AAAA:"}, "Content-Digest"),
        ({"artifact_kind": ""}, "Artifact-Kind"),
        ({"artifact_kind": "malware"}, "Artifact-Kind"),
        ({"content_type": "text"}, "Content-Type"),
    ],
)
def test_odd_headers_are_named(caller, headers, field):
    assert field in problem(caller.upload("output", b"x", **headers), 422, "invalid")["errors"]


def test_an_artifact_has_at_most_the_limit(caller, settings):
    settings.ARTIFACT_MAX_BYTES = 10
    assert caller.upload("output", b"x" * 10).status_code == 201
    assert problem(caller.upload("output", b"x" * 11), 413, "too_large")["limit_bytes"] == 10
    assert incoming() == []


def test_without_the_lease_nothing_is_stored(caller, holder):
    problem(caller.upload("output", b"x", lease_token="x"), 409, "lease_lost")
    holder.post(Ev.LEASE_RELEASED)
    problem(caller.upload("output", b"x"), 409, "lease_lost")
    assert not Artifact.objects.filter(kind="output").exists()
    assert Refusal.objects.filter(code="lease_lost").count() == 2


def test_evidence_is_taken_while_a_cancel_is_pending(caller, holder):
    by = of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=holder.run_id, event=Ev.CANCEL_REQUESTED, reason="stop", by=by)
    assert caller.upload("log", b"what happened").status_code == 201


def test_people_upload_nothing(caller):
    person = Caller(factories.person_token(factories.person(PersonRole.ADMIN)))
    problem(person.post(f"runs/{caller.run_id}/artifacts", b"x"), 403, "actor_not_allowed")


def test_json_kinds_are_read_strictly(caller):
    good = caller.upload("plan", b'{"files": []}')
    assert Artifact.objects.get(pk=good.json()["id"]).document == {"files": []}
    bad = caller.upload("plan", b'{"files": [], "files": [1]}')
    assert "given twice" in bad.json()["facts"]["unreadable"]
    assert Artifact.objects.get(pk=bad.json()["id"]).document is None


# --- patches --------------------------------------------------------------------------------------


def test_a_patch_is_judged_by_git_at_upload(caller, holder):
    facts = caller.upload("patch", holder.patch).json()["facts"]
    assert facts["paths"] == ["clock.py"]
    assert facts["base"]["commit"] == holder.base_commit
    assert facts["base"]["applies"] is True
    assert facts["base"]["head"] == holder.base_commit
    assert len(facts["tree"]) == 40


def test_a_claim_inside_the_patch_changes_no_reading(caller):
    patch = factories.patch_writing({"key.py": 'TOKEN = "ghp_' + "a1B2" * 9 + '"\n'})
    facts = caller.upload("patch", patch).json()["facts"]
    assert facts["secrets"]
    assert "a1B2a1B2" not in str(facts)


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        (b"", "not_a_patch"),
        (b"hello\n", "not_a_patch"),
        (
            b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
            "unsafe_path",
        ),
        (
            b"diff --git a/gone.py b/gone.py\nindex " + b"a" * 40 + b".." + b"b" * 40 + b" 100644\n"
            b"--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-a\n+b\n",
            "not_a_patch",
        ),
    ],
)  # fmt: skip
def test_what_git_would_not_apply_is_refused(caller, patch, code):
    problem(caller.upload("patch", patch), 422, code)
    assert not Artifact.objects.filter(kind="patch").exists()


def test_a_patch_needs_a_base_to_be_read_against():
    holder = factories.run_in(RunStatus.LEASED)
    problem(LeasedCaller(holder).upload("patch", holder.patch), 409, "not_allowed_now")


def test_a_repository_that_cannot_be_reached_leaves_the_base_unknown(holder, caller):
    repository = holder.run.repository
    repository.url = "file:///nowhere"
    repository.save()
    base = caller.upload("patch", holder.patch).json()["facts"]["base"]
    assert base["applies"] is None
    assert base["why"]


# --- who reads ------------------------------------------------------------------------------------


def test_the_list_names_kinds_and_addresses(caller):
    made = caller.upload("log", b"line").json()
    listed = caller.get(f"runs/{caller.run_id}/artifacts").json()["results"]
    assert listed[0]["id"] == made["id"]
    assert listed[0]["href"] == f"/api/v1/artifacts/{made['id']}"


def test_bytes_of_another_repository_are_not_found(caller):
    made = caller.upload("log", b"line").json()
    stranger = factories.person(PersonRole.VIEWER, repository=factories.repository())
    problem(Caller(factories.person_token(stranger)).get(f"artifacts/{made['id']}"), 404, "not_found")
    reader = factories.person(PersonRole.VIEWER)
    assert Caller(factories.person_token(reader)).get(f"artifacts/{made['id']}").status_code == 200
