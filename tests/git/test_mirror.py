"""git is the arbiter: what a patch says it changes is what git changes, or it is refused."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runs.domain.patch import AmbiguousPatch, NotAPatch, PatchRefused, read_patch
from runs.domain.patch.reading import patch_facts
from runs.mirrors import CommitMissing, GitFailed, GitTimeout, Mirror
from runs.mirrors.process import run_git
from runs.pull_requests.base import Author, Change
from runs.pull_requests.git import GitProvider
from tests.git.repos import Remote, mirror_of
from tests.unit.patch_cases import CASES
from tests.unit.patch_cases_guard import GUARD_CASES

ALL = {**CASES, **GUARD_CASES}
REFUSED = {
    "binary_after_text_plain": "not_a_patch",
    "codex_format": "not_a_patch",
    "short_hunk": "not_a_patch",
    "traversal": "unsafe_path",
    "absolute": "unsafe_path",
    "dotgit": "unsafe_path",
    "dot_segment": "unsafe_path",
}
TAKEN = [name for name in ALL if name not in REFUSED]


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path / "remote.git")


def read(remote: Remote, tmp_path: Path, name: str):
    base = remote.commit(ALL[name].base)
    return mirror_of(remote, tmp_path).read(ALL[name].patch, base)


@pytest.mark.parametrize("name", TAKEN)
def test_git_agrees_with_the_reading(remote, tmp_path, name):
    reading = read(remote, tmp_path, name)
    assert reading.paths == {path for file in reading.files for path in file.touched}
    facts = patch_facts(reading.files, reading.word)
    assert facts["base"]["applies"] is True
    assert facts["tree"] == reading.tree


@pytest.mark.parametrize("name", REFUSED)
def test_what_git_or_the_reader_would_not_take_is_refused(remote, tmp_path, name):
    with pytest.raises(PatchRefused) as refused:
        read(remote, tmp_path, name)
    assert refused.value.code == REFUSED[name]


@pytest.mark.parametrize(
    ("name", "path", "content"),
    [
        ("latin1", "l.txt", b"na\xefve caf\xe9\n"),
        ("lone_cr", "m.txt", b"a\nnorm R\rX done\n"),
        ("noeol_both", "f.txt", b"a\nc"),
        ("noeol_only", "f.txt", b"a\nb\n"),
        ("crlf", "w.txt", b"a\r\nB\r\n"),
        ("dbl_slash", ".github/workflows/ci.yml", b"name: ci\non: [push, pull_request_target]\n"),
    ],
)
def test_the_tree_has_the_exact_bytes(remote, tmp_path, name, path, content):
    base = remote.commit(ALL[name].base)
    mirror = mirror_of(remote, tmp_path)
    with mirror.scratch() as scratch:
        scratch.load(base)
        assert scratch.apply(ALL[name].patch).code == 0
        tree = scratch.write_tree()
        assert scratch.run("cat-file", "blob", f"{tree}:{path}").out == content
    assert tree == mirror.read(ALL[name].patch, base).tree


def test_modes_and_link_targets_are_gits_own(remote, tmp_path):
    base = remote.commit([("a/link", "120000", b"../x"), ("x", "100644", b"x\n")])
    after = remote.tree([("link", "120000", b"../x"), ("x", "100644", b"x\n")])
    reading = mirror_of(remote, tmp_path).read(remote.diff(base, after), base)
    facts = patch_facts(reading.files, reading.word)
    assert facts["files"][0]["new_mode"] == "120000"
    assert facts["special"] == [
        {"path": "link", "kind": "symlink", "detail": "symlink -> ../x", "outside": True}
    ]


def test_nothing_of_a_patch_stays_in_the_mirror(remote, tmp_path):
    base = remote.commit(CASES["crlf"].base)
    mirror = mirror_of(remote, tmp_path)
    before = sorted(str(p) for p in tmp_path.rglob("*") if "remote.git" not in str(p))
    reading = mirror.read(CASES["crlf"].patch, base)
    assert sorted(str(p) for p in tmp_path.rglob("*") if "remote.git" not in str(p)) == before
    assert run_git("cat-file", "-e", reading.tree, git_dir=mirror.path).code != 0


def test_a_patch_on_another_base_is_no_patch_and_says_what_git_said(remote, tmp_path):
    base = remote.commit([("w.txt", "100644", b"other\n")])
    with pytest.raises(NotAPatch, match="patch does not apply"):
        mirror_of(remote, tmp_path).read(CASES["crlf"].patch, base)


def test_a_hunk_at_another_place_than_it_says_is_ambiguous(remote, tmp_path):
    base = remote.commit([("f", "100644", b"x\n" * 3 + b"a\nb\nc\n" + b"y\n" * 20)])
    patch = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -12,3 +12,3 @@\n a\n-b\n+B\n c\n"
    with pytest.raises(AmbiguousPatch, match="other lines"):
        mirror_of(remote, tmp_path).read(patch, base)


def test_a_patch_that_changes_nothing_is_no_patch(remote, tmp_path):
    base = remote.commit([("f", "100644", b"a\n")])
    patch = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n"
    with pytest.raises(NotAPatch, match="changes nothing"):
        mirror_of(remote, tmp_path).read(patch, base)


def test_a_file_that_is_named_but_not_changed_is_ambiguous(remote, tmp_path):
    base = remote.commit([("f", "100644", b"a\n"), ("g", "100644", b"a\n")])
    same = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n"
    real = same.replace(b"/f", b"/g").replace(b"+a", b"+b")
    with pytest.raises(AmbiguousPatch, match="'f'"):
        mirror_of(remote, tmp_path).read(same + real, base)


def test_a_reader_that_counts_otherwise_than_git_is_not_believed(remote, tmp_path, monkeypatch):
    base = remote.commit([("f", "100644", b"a\n")])
    patch = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-a\n+b\n+c\n"
    wrong = read_patch(patch.replace(b"+1,2", b"+1").replace(b"+c\n", b""))
    monkeypatch.setattr("runs.mirrors.read_patch", lambda _: wrong)
    with pytest.raises(AmbiguousPatch, match="'f'"):
        mirror_of(remote, tmp_path).read(patch, base)


def test_binary_data_without_full_ids_says_how_to_make_it(remote, tmp_path):
    base = remote.commit(CASES["binary_after_text"].base)
    short = CASES["binary_after_text"].patch.replace(
        b"2ee55da7348a42d464300b58367eac68e991f889..393118140a847b6aa768da1295639b7687d0274f",
        b"2ee55da..3931181",
    )
    with pytest.raises(NotAPatch, match="git diff --binary"):
        mirror_of(remote, tmp_path).read(short, base)


def test_a_patch_through_a_link_is_refused(remote, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    base = remote.commit([("link", "120000", str(outside).encode())])
    patch = b"diff --git a/link/x b/link/x\nnew file mode 100644\n--- /dev/null\n+++ b/link/x\n"
    with pytest.raises(PatchRefused):
        mirror_of(remote, tmp_path).read(patch + b"@@ -0,0 +1 @@\n+x\n", base)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("head_content", "applies"),
    [(b"1\n2\n3\n4\n", True), (b"1\nzwei\n3\n", False), (b"1\n2\n3\n", True)],
)
def test_todays_head_is_asked_too(remote, tmp_path, head_content, applies):
    case = GUARD_CASES["moved"]
    base = remote.commit(case.base)
    head = remote.commit([("f.txt", "100644", head_content), ("g", "100644", b"g\n")], on=base)
    reading = mirror_of(remote, tmp_path).read(case.patch, base, head)
    assert reading.applies_to_head is applies
    assert bool(reading.why) is not applies


def test_an_unknown_base_is_said_and_fetched_when_asked(remote, tmp_path):
    first = remote.commit([("f", "100644", b"a\n")])
    mirror = mirror_of(remote, tmp_path)
    second = remote.commit([("f", "100644", b"b\n")], on=first)
    with pytest.raises(CommitMissing):
        mirror.read(CASES["crlf"].patch, second)
    mirror.ensure(second)
    assert mirror.has(second)
    assert mirror.resolve("main") == second
    with pytest.raises(CommitMissing):
        mirror.ensure("a" * 40)


def test_a_fetch_of_one_branch_leaves_the_others(remote, tmp_path):
    base = remote.commit([("f", "100644", b"a\n")])
    mirror = mirror_of(remote, tmp_path)
    other = remote.commit([("f", "100644", b"b\n")], branch="other", on=base)
    moved = remote.commit([("f", "100644", b"c\n")], on=base)
    mirror.fetch(branch="other")
    assert (mirror.resolve("other"), mirror.resolve("main")) == (other, base)
    mirror.fetch()
    assert mirror.resolve("main") == moved


@pytest.mark.parametrize("branch", ["--upload-pack=touch x", "a..b", "", "a b", "x\ny"])
def test_a_name_that_is_no_branch_is_refused(remote, tmp_path, branch):
    mirror = Mirror(tmp_path / "m.git", remote.url)
    with pytest.raises(GitFailed, match="no name for a branch"):
        mirror.fetch(branch=branch)


@pytest.mark.parametrize("url", ["ext::touch {}", "--upload-pack=touch {}", "git://127.0.0.1/x"])
def test_no_address_runs_a_program(tmp_path, url):
    canary = tmp_path / "canary"
    with pytest.raises(GitFailed):
        Mirror(tmp_path / "m.git", url.format(canary)).fetch(timeout=10)
    assert not canary.exists()


def test_no_hook_and_no_configuration_of_the_user_is_read(remote, tmp_path, monkeypatch):
    canary = tmp_path / "canary"
    run = f"touch {canary}; cat"
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {run}\n\tpager = {run}\n\thooksPath = {tmp_path}/hooks\n"
        f'[filter "x"]\n\tclean = {run}\n\tsmudge = {run}\n\trequired = true\n'
        f'[diff]\n\texternal = {run}\n[diff "x"]\n\ttextconv = {run}\n\tcommand = {run}\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {canary}")
    monkeypatch.setenv("GIT_TRACE", str(canary))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    steering = (".gitattributes", "100644", b"* filter=x diff=x merge=x\n")
    base = remote.commit([*CASES["crlf"].base, steering])
    mirror = mirror_of(remote, tmp_path)
    for folder in (mirror.path / "hooks", tmp_path / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("reference-transaction", "pre-push", "post-index-change"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {canary}\n")
            (folder / name).chmod(0o755)
    remote.commit([("f", "100644", b"a\n")], branch="other")
    mirror.fetch()
    mirror.read(CASES["crlf"].patch, base)
    change = Change(
        base_commit=base,
        patch=CASES["crlf"].patch,
        approved_paths=["w.txt"],
        branch="agent/r",
        message="x",
        author=Author("Agent Platform", "agents@example.invalid"),
        timestamp=datetime(2026, 7, 3, tzinfo=UTC),
    )
    assert GitProvider(mirror).create(change).created is True
    assert not canary.exists()


def test_a_git_that_hangs_is_stopped_with_its_children(tmp_path):
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    pid_file = tmp_path / "pid"
    script.write_text(f"#!/bin/sh\ntail -f /dev/null &\necho $! > {pid_file}\nwait\n")
    script.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
        with pytest.raises(GitTimeout):
            run_git("fetch", timeout=0.5)
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", pid_file.read_text().strip()], capture_output=True, text=True, check=False
    ).stdout.strip()
    assert state[:1] in ("", "Z")  # gone, or nobody has asked for its status yet; nice or not


def test_whoever_fetches_for_long_keeps_others_waiting_no_longer_than_they_may(remote, tmp_path):
    mirror = mirror_of(remote, tmp_path)
    with mirror.path.with_name(mirror.path.name + ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(GitTimeout, match="another process"):
            mirror.fetch(timeout=0.2)
    mirror.fetch()


def test_many_at_once_fetch_and_read_one_mirror(remote, tmp_path):
    base = remote.commit(CASES["crlf"].base)
    start = threading.Barrier(8)

    def work(_: int) -> str:
        mirror = Mirror(tmp_path / "shared.git", remote.url)
        start.wait()
        mirror.fetch()
        return mirror.read(CASES["crlf"].patch, base).tree

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(work, range(8)))) == 1


def test_a_lock_of_a_git_that_was_killed_stops_nobody(remote, tmp_path):
    remote.commit([("a.txt", "100644", b"a\n")])
    mirror = mirror_of(remote, tmp_path)
    for name in ("refs/heads/main.lock", "packed-refs.lock"):
        (mirror.path / name).parent.mkdir(parents=True, exist_ok=True)
        (mirror.path / name).touch()
    commit = remote.commit([("a.txt", "100644", b"b\n")], on=mirror.resolve("main"))
    mirror.fetch(branch="main")
    assert mirror.resolve("main") == commit
