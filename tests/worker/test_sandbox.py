"""Sandboxes: what is planted in a checkout never runs, and what a dead worker left is swept."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worker.repositories import commit_files, git
from worker.client.protocol import Repository
from worker.conformance.stand_in import StandIn
from worker.sandbox.folder import OWNER_FILE, PathOutside, RepositoryUnreachable, Sandbox, sweep_orphans
from worker.sandbox.git import GitError
from worker.sandbox.process import end_marked

Make = Callable[..., Sandbox]


@pytest.fixture
def make(work_dir: Path, repository: Path) -> Make:
    def create(**changes: Any) -> Sandbox:
        where = Repository("repo", changes.pop("url", str(repository)), changes.pop("branch", "main"))
        return Sandbox.create(
            work_dir=work_dir, run_id="run_1", repository=where, base_commit=changes.pop("commit", None)
        )

    return create


def plant(checkout: Path, canary: Path) -> None:
    """Everything by which git would run an agent's program."""
    touch = f"#!/bin/sh\ntouch {canary}\ncat\n"
    bait = checkout / "bait.sh"
    bait.write_text(touch)
    bait.chmod(0o755)
    config = (
        f"[core]\n fsmonitor = {bait}\n hooksPath = {checkout}/hooks\n"
        f'[diff]\n external = {bait}\n[diff "x"]\n textconv = {bait}\n command = {bait}\n'
        f'[filter "x"]\n clean = {bait}\n smudge = {bait}\n process = {bait}\n required = true\n'
    )
    for folder in (checkout / ".git", checkout / "hooks"):
        folder.mkdir()
    git(checkout, "init", "-q")
    (checkout / ".git" / "config").write_text(config)
    (checkout / ".gitconfig").write_text(config)
    for name in ("pre-commit", "post-index-change", "post-checkout", "reference-transaction"):
        for folder in (checkout / "hooks", checkout / ".git" / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(touch)
            (folder / name).chmod(0o755)
    (checkout / ".gitattributes").write_text(
        "* filter=x diff=x merge=x text eol=crlf ident working-tree-encoding=UTF-16\n"
    )


def test_nothing_planted_in_the_checkout_runs(make: Make, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_text("not yours\n")
    sandbox = make()
    checkout = sandbox.checkout("agent")
    plant(checkout.path, canary)
    (checkout.path / "folder").symlink_to(outside)
    (checkout.path / "clock.py").unlink()
    (checkout.path / "clock.py").symlink_to(outside / "notes.txt")
    (checkout.path / "notes.txt").write_text("one\nthree\n")
    patch = checkout.diff()
    assert b"+three\n" in patch
    assert b".gitattributes" in patch
    assert b".git/config" not in patch
    again = sandbox.checkout("verify")
    again.apply(patch)
    assert (again.path / "notes.txt").read_text() == "one\nthree\n"
    assert again.diff() == patch
    assert b"not yours" not in patch
    # The link itself is the change, and what comes behind it stays where it is.
    assert (again.path / "folder").readlink() == outside
    with pytest.raises(GitError):
        again.edit(b"--- a/folder/notes.txt\n+++ b/folder/notes.txt\n@@ -1 +1 @@\n-not yours\n+mine\n")
    assert sandbox.destroy()
    assert [path.read_text() for path in outside.iterdir()] == ["not yours\n"]
    assert not canary.exists()


def test_attributes_of_the_base_run_nothing_either(make: Make, tmp_path: Path, repository: Path) -> None:
    commit_files(repository, {".gitattributes": "* filter=x text eol=crlf ident\n", "id.txt": "$Id$\n"})
    checkout = make().checkout("agent")
    assert (checkout.path / "id.txt").read_bytes() == b"$Id$\n"
    assert checkout.diff() == b""


def test_ignore_files_are_those_of_the_base(make: Make, repository: Path) -> None:
    commit_files(repository, {"sub/.gitignore": "*.tmp\n!kept.tmp\n", "sub/x": "x\n"})
    checkout = make().checkout("agent")
    (checkout.path / ".gitignore").write_text("*\n")
    for name in ("a.log", "hidden.py", "sub/a.tmp", "sub/kept.tmp", "build/deep/out", "sub/build/x"):
        path = checkout.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    patch = checkout.diff().decode()
    named = {line.split(" b/")[1] for line in patch.splitlines() if line.startswith("diff --git")}
    assert named == {".gitignore", "hidden.py", "sub/kept.tmp"}


def test_a_checkout_is_at_the_base_commit_and_holds_no_git(make: Make, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    commit_files(repository, {"notes.txt": "newer\n"})
    sandbox = make(commit=first)
    checkout = sandbox.checkout("agent")
    assert sandbox.base_commit == first
    assert (checkout.path / "notes.txt").read_text() == "one\ntwo\n"
    assert not (checkout.path / ".git").exists()
    probe = subprocess.run(
        ["git", "rev-parse"], cwd=checkout.path, env=checkout.environment(), capture_output=True, check=False
    )
    assert probe.returncode != 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "/nowhere"},
        {"url": "ext::sh -c 'touch ran-by-url'"},
        {"url": "--upload-pack=touch ran-by-url"},
        {"branch": "absent"},
        {"branch": "--upload-pack=touch"},
        {"commit": "0" * 40},
    ],
)
def test_a_repository_that_cannot_be_had_is_said_so(
    make: Make, wrong: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RepositoryUnreachable):
        make(**wrong)
    assert not list(tmp_path.rglob("ran-by-url"))


def test_a_patch_outside_the_checkout_is_refused(make: Make, tmp_path: Path) -> None:
    patch = b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(GitError):
        make().checkout("verify").apply(patch)


def test_a_working_directory_stays_inside(make: Make) -> None:
    checkout = make().checkout("agent")
    (checkout.path / "out").symlink_to("/tmp")
    for name in ("..", "out", "absent", "notes.txt"):
        with pytest.raises(PathOutside):
            checkout.directory(name)
    assert checkout.directory("") == checkout.path


def test_a_sandbox_is_removed_whatever_its_modes(make: Make) -> None:
    sandbox = make()
    locked = sandbox.checkout("agent").path / "locked" / "deeper"
    locked.mkdir(parents=True)
    locked.parent.chmod(0)
    assert sandbox.destroy()
    assert not sandbox.root.exists()


def test_sweeping_spares_the_living_and_the_strangers(make: Make, work_dir: Path) -> None:
    living, stranger, reused, old_boot = make(), make(), make(), make()
    edits = {stranger: {"host": "elsewhere"}, reused: {"started": "1"}, old_boot: {"boot": "before"}}
    for sandbox, edit in edits.items():
        owner = json.loads((sandbox.root / OWNER_FILE).read_text())
        (sandbox.root / OWNER_FILE).write_text(json.dumps({**owner, **edit}))
    half_made = work_dir / "runs" / "sbx-half-made"
    half_made.mkdir()
    assert set(sweep_orphans(work_dir)) == {reused.id, old_boot.id}
    assert living.root.exists()
    assert stranger.root.exists()
    assert half_made.exists()


def test_kill_of_the_worker_leaves_an_orphan_that_the_next_start_sweeps(
    plane: StandIn, contract: dict[str, Any], work_dir: Path, tmp_path: Path
) -> None:
    # Within its checkout: where the machine has walls, nothing else can be written.
    contract["agent"]["command"] = "trap '' TERM; echo begun > started; while :; do sleep 1; done"
    token = tmp_path / "token"
    token.write_text(plane.token)
    command = [sys.executable, "-m", "worker", "--url", plane.url, "--token-file", str(token)]
    command += ["--work-dir", str(work_dir), "--wait-seconds", "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    plane.wait_for(lambda: any((work_dir / "runs").glob("**/started")))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    orphan = next((work_dir / "runs").iterdir())
    # Its lease runs out; the run can be claimed again, and another agent does better.
    plane.take_lease_away()
    contract["agent"]["command"] = "sed -i s/two/three/ notes.txt"
    plane.state.pending.clear()
    second = subprocess.run(
        [*command, "--once"], env=environment, capture_output=True, timeout=60, check=False
    )
    assert second.returncode == 0, second.stderr
    assert plane.state.status == "SUCCEEDED"
    assert not list((work_dir / "runs").iterdir())
    assert end_marked(orphan.name, seconds=0)
    assert plane.token.encode() not in second.stderr + second.stdout


def test_sigterm_ends_an_idle_worker(plane: StandIn, work_dir: Path, tmp_path: Path) -> None:
    plane.state.status = "SUCCEEDED"
    token = tmp_path / "token"
    token.write_text(plane.token)
    command = [sys.executable, "-m", "worker", "--url", plane.url, "--token-file", str(token)]
    command += ["--work-dir", str(work_dir), "--wait-seconds", "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    worker = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    plane.wait_for(lambda: bool(plane.calls))
    worker.terminate()
    assert worker.wait(timeout=20) == 0


def test_a_worker_says_that_the_control_plane_is_away_and_goes_on(
    plane: StandIn,
    make_worker: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [1]

    def away_once(method: str, path: str) -> str | None:
        if path == "leases" and left[0]:
            left[0] -= 1
            return "away"
        return None

    plane.break_call = away_once
    caplog.set_level(logging.WARNING, logger="worker")
    monkeypatch.setattr(logging.getLogger("worker"), "disabled", False)
    thread = threading.Thread(target=make_worker().run, kwargs={"once": True}, daemon=True)
    begun = time.monotonic()
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert time.monotonic() - begun < 30
    assert "did not answer" in caplog.text
    assert plane.state.status == "SUCCEEDED"
