"""Artifacts lie in files or in an object store, and nobody who reads them can tell which."""

from __future__ import annotations

import hashlib
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse
from moto.server import ThreadedMotoServer

from agentplatform import object_store
from agentplatform import settings as product_settings
from runs import livelogs
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, RunStatus
from runs.models import Artifact
from runs.vault import OBJECTS, VaultAwayError, vault
from tests import factories
from tests.api.calls import LeasedCaller, problem
from tests.served import free_port

DATA = bytes(range(256)) * 1_000
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "key")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        server.start()
        try:
            yield "http://{}:{}".format(*server.get_host_and_port())
        finally:
            server.stop()


def in_objects(address: str, bucket: str) -> dict[str, Any]:
    """The settings of an installation whose artifacts lie there."""
    url = f"s3://{bucket}/kept/here?endpoint_url={address}&region_name=us-east-1"
    return {**product_settings.STORAGES, OBJECTS: object_store.storage(url)}


@pytest.fixture
def bucket(s3, settings):
    """Artifacts go to a bucket of its own, which is given."""
    store = boto3.resource("s3", endpoint_url=s3, region_name="us-east-1")
    made = store.create_bucket(Bucket=uuid.uuid4().hex)
    settings.STORAGES = in_objects(s3, made.name)
    return made


@pytest.fixture(params=["files", "objects"])
def somewhere(request, settings, tmp_path):
    if request.param == "objects":
        request.getfixturevalue("bucket")
    settings.ARTIFACT_DIR = tmp_path / "artifacts"


def keep(tmp_path: Path, data: bytes) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    received = tmp_path / "received"
    received.write_bytes(data)
    vault().keep(received, sha256)
    return sha256


@pytest.mark.usefixtures("somewhere")
def test_what_is_kept_is_read_whole_in_part_and_piece_by_piece(tmp_path):
    assert keep(tmp_path, DATA) == keep(tmp_path, DATA) == SHA256
    assert vault().size(SHA256) == len(DATA)
    assert vault().read(SHA256) == DATA
    assert vault().read(SHA256, 300, 700) == DATA[300:700]
    assert vault().read(SHA256, len(DATA) - 5) == DATA[-5:]
    assert vault().read(SHA256, 10, 10) == vault().read(SHA256, len(DATA), len(DATA) + 9) == b""
    with vault().open(SHA256) as content:
        assert content.read(1_000) == DATA[:1_000]
        assert content.read() == DATA[1_000:]
    assert vault().read(keep(tmp_path, b"")) == b""


@pytest.mark.usefixtures("somewhere")
@pytest.mark.parametrize(
    "ask", [lambda v: v.open(SHA256), lambda v: v.read(SHA256), lambda v: v.size(SHA256)]
)
def test_a_digest_without_bytes_is_said_as_a_file_that_is_not_there(ask):
    with pytest.raises(FileNotFoundError):
        ask(vault())


def test_both_use_the_same_names(bucket, tmp_path, settings):
    sha256 = keep(tmp_path, b"evidence")
    (kept,) = bucket.objects.all()
    settings.STORAGES = product_settings.STORAGES
    settings.ARTIFACT_DIR = tmp_path / "artifacts"
    assert keep(tmp_path, b"evidence") == sha256
    (file,) = (path for path in settings.ARTIFACT_DIR.rglob("*") if path.is_file())
    assert kept.key == f"kept/here/{file.relative_to(settings.ARTIFACT_DIR)}"


@pytest.mark.django_db
def test_evidence_goes_there_and_comes_back_by_rest_and_page(bucket, client, settings):
    holder = factories.run_in(RunStatus.EXECUTING)
    caller = LeasedCaller(holder)
    stored = caller.upload("output", DATA).json()
    assert caller.upload("output", DATA).status_code == 200
    assert f"kept/here/{SHA256[:2]}/{SHA256}" in [kept.key for kept in bucket.objects.all()]
    assert list((Path(settings.ARTIFACT_DIR) / "incoming").iterdir()) == []
    got = caller.get(f"artifacts/{stored['id']}")
    assert b"".join(got.streaming_content) == DATA
    assert got["Content-Length"] == str(len(DATA))
    client.force_login(factories.person(PersonRole.ADMIN))
    shown = client.get(reverse("artifact", args=[stored["id"]]))
    assert b"".join(shown.streaming_content) == DATA


@pytest.mark.django_db
def test_a_live_log_is_sealed_there_and_reads_as_before(bucket):
    holder = factories.run_in(RunStatus.EXECUTING)
    holder.post(Ev.TOOL_REQUESTED, operation_id="one", tool="shell", arguments={}, label="make")
    livelogs.livelog_append(
        run_id=holder.run_id, operation_id="one", offset=0, data=b"line\n" * 40,
        account=holder.machine.account.pk, lease_token=holder.token,
    )  # fmt: skip
    holder.post(Ev.TOOL_COMPLETED, operation_id="one", outcome="succeeded")
    assert livelogs.livelogs_seal() == 1
    assert Artifact.objects.get(run_id=holder.run_id, kind=ArtifactKind.LOG).size == 200
    read = livelogs.livelog_read(holder.run, "one", offset=5)
    assert (read.data, read.complete) == (b"line\n" * 39, True)


@pytest.mark.django_db
def test_a_store_that_is_away_is_said_and_nothing_is_recorded(s3, settings):
    caller = LeasedCaller(factories.run_in(RunStatus.EXECUTING))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        settings.STORAGES = in_objects(f"http://127.0.0.1:{nobody.getsockname()[1]}", "bucket")
        refused = caller.upload("output", DATA)
        with pytest.raises(VaultAwayError):
            vault().read(SHA256)
    problem(refused, 503, "unavailable")
    assert int(refused["Retry-After"]) > 0
    assert not Artifact.objects.filter(sha256=SHA256).exists()


@pytest.mark.parametrize(
    "url",
    ["https://bucket/here", "s3:///here", "s3://bucket?endpoint=http://x", "s3://key:secret@bucket/here"],
)
def test_an_address_that_is_none_is_refused_with_its_form_and_without_its_secret(url):
    with pytest.raises(ImproperlyConfigured, match="ARTIFACT_STORE_URL must be s3://bucket") as refused:
        object_store.storage(url)
    assert "secret@" not in str(refused.value)
