"""A small repository, a control plane and a worker for each test."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.repositories import FILES, commit_files, git
from worker.claiming import Worker
from worker.client.plane import ControlPlane
from worker.client.transport import Patience
from worker.config import WorkerConfig
from worker.conformance.stand_in import StandIn, State
from worker.drain import Drain

QUICK = Patience(attempts=8, seconds=10, wait_initial=0.01, wait_max=0.05)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    git(folder, "init", "-q", "-b", "main", "--template=")
    commit_files(folder, FILES)
    return folder


@pytest.fixture
def repository(tmp_path: Path, template: Path) -> Path:
    return shutil.copytree(template, tmp_path / "repository")


@pytest.fixture
def contract() -> dict[str, Any]:
    """Replaces a word, and checks that it is gone."""
    return {
        "title": "Rename two",
        "instruction": "Replace two by three in notes.txt",
        "completion_mode": "pr_created",
        "allowed_paths": ["*.txt"],
        "forbidden_paths": ["secret/**"],
        "setup": [],
        "verifiers": [{"name": "no-two", "command": "! grep -q two notes.txt", "timeout_seconds": 20}],
        "agent": {"kind": "script", "command": "sed -i s/two/three/ notes.txt"},
    }


@pytest.fixture
def plane(contract: dict[str, Any], repository: Path) -> Iterator[StandIn]:
    with StandIn(State(contract=contract, url=str(repository))) as fake:
        yield fake


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def drain() -> Drain:
    return Drain(grace_seconds=0.2)


@pytest.fixture
def make_worker(plane: StandIn, work_dir: Path, drain: Drain) -> Iterator[Callable[..., Worker]]:
    clients: list[ControlPlane] = []

    def make(**settings: Any) -> Worker:
        client = ControlPlane(url=plane.url, token=plane.token, patience=QUICK)
        clients.append(client)
        config = WorkerConfig(work_dir=work_dir, wait_seconds=0, kill_after_seconds=0.3, **settings)
        return Worker(config=config, plane=client, drain=drain)

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def work(make_worker: Callable[..., Worker], work_dir: Path) -> Callable[..., None]:
    """One run worked on to the end of its lease; nothing may be left in the work folder."""

    def run(**settings: Any) -> None:
        make_worker(**settings).run(once=True)
        assert not list((work_dir / "runs").glob("*"))

    return run


@pytest.fixture
def work_aside(work: Callable[..., None]) -> Callable[..., threading.Thread]:
    """The same in a thread, for tests that interfere."""

    def start(**settings: Any) -> threading.Thread:
        thread = threading.Thread(target=work, kwargs=settings, daemon=True)
        thread.start()
        return thread

    return start


@pytest.fixture
def make_product(settings: Any, tmp_path: Path, live_server: Any) -> Callable[..., Any]:
    """The whole product over HTTP; loaded only where it is asked for."""
    from tests.worker.product import FILES, Product

    settings.DATA_DIR = tmp_path
    settings.ARTIFACT_DIR, settings.MIRROR_DIR = tmp_path / "artifacts", tmp_path / "mirrors"
    return lambda files=FILES, object_format="sha1", **policy: Product(
        url=live_server.url, folder=tmp_path, files=files, policy=policy, object_format=object_format
    )
