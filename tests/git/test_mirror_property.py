"""For any two trees: the paths read from git's patch are git's own, and the tree's."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runs.domain import guards
from runs.domain.patch import NotAPatch, read_patch, read_sections, shown
from runs.domain.patch.reading import patch_facts
from runs.domain.paths import path_problem
from runs.pull_requests.base import Author, Change
from runs.pull_requests.git import GitProvider
from tests.git.repos import Remote, mirror_of

names = st.text(
    alphabet=st.sampled_from([*"ab./ \t\"'é日-+@_", "\udce9", "\\"]), min_size=1, max_size=12
).filter(lambda name: path_problem(name) is None)
lines = st.lists(
    st.sampled_from(
        [b"a", b"b", b"", b"-- x", b"++ y", b"diff --git a/x b/x", b"@@ -1 +1 @@", b"c\r", b"\xff", b"d\x0ce"]
    ),
    max_size=12,
)
text = st.builds(lambda rows, end: b"\n".join(rows) + end, lines, st.sampled_from([b"", b"\n"]))
binary = st.builds(lambda data: b"\x00" + data, st.binary(max_size=200))
files = st.tuples(st.sampled_from(["100644", "100755"]), text | binary)
links = st.tuples(st.just("120000"), st.sampled_from([b"a", b"../x", b"/etc/passwd"]))
submodules = st.tuples(st.just("160000"), st.sampled_from([b"1" * 40, b"2" * 40]))
trees = st.dictionaries(names, st.one_of(files, files, files, links, submodules), max_size=6)


def _without_clashes(tree: dict) -> dict:
    """No file where another entry needs a folder."""
    return {path: entry for path, entry in tree.items() if not any(o.startswith(path + "/") for o in tree)}


@st.composite
def edits(draw):
    """(before, after): some files kept, some moved, some replaced, some new."""
    before = _without_clashes(draw(trees))
    after = dict(draw(trees))
    for path, entry in before.items():
        fate = draw(st.sampled_from(["keep", "edit", "edit", "move", "drop", "mode"]))
        if fate == "keep":
            after[path] = entry
        elif fate == "edit" and entry[0].startswith("100"):
            after[path] = (entry[0], draw(text))
        elif fate == "move":
            after[draw(names)] = entry
        elif fate == "mode" and entry[0] == "100644":
            after[path] = ("100755", entry[1])
    return before, _without_clashes(after)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits())
def test_reader_git_and_tree_agree_on_every_change(pair):
    before, after = ([(path, *entry) for path, entry in tree.items()] for tree in pair)
    with tempfile.TemporaryDirectory() as folder:
        remote = Remote(Path(folder) / "remote.git")
        base = remote.commit(before)
        wanted = remote.tree(after)
        patch = remote.diff(base, wanted)
        if not patch:
            return
        mirror = mirror_of(remote, Path(folder))
        if not remote.takes(patch, base):
            # A folder named ' ', or a link that makes room for a folder: git refuses its own diff.
            with pytest.raises(NotAPatch):
                mirror.read(patch, base)
            return
        reading = mirror.read(patch, base)
        assert reading.tree == wanted
        expected = {
            path for path in pair[0].keys() | pair[1].keys() if pair[0].get(path) != pair[1].get(path)
        }
        assert reading.paths == expected
        assert {path for file in reading.files for path in file.touched} == expected
        spans = read_sections(patch)
        assert [read_patch(patch[s.start : s.end])[0] for s in spans] == list(reading.files)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits())
def test_the_paths_that_the_guards_saw_are_those_that_the_pushed_tree_changes(pair):
    before, after = ([(path, *entry) for path, entry in tree.items()] for tree in pair)
    with tempfile.TemporaryDirectory() as folder:
        remote = Remote(Path(folder) / "remote.git")
        base = remote.commit(before)
        patch = remote.diff(base, remote.tree(after))
        if not patch or not remote.takes(patch, base):
            return
        mirror = mirror_of(remote, Path(folder))
        reading = mirror.read(patch, base)
        seen = guards.paths_of(patch_facts(reading.files, reading.word, key=b"a key of tests"))
        pushed = GitProvider(mirror).create(
            Change(
                base_commit=base,
                patch=patch,
                approved_paths=reading.paths,
                branch="agent/r",
                message="x",
                author=Author("Agent Platform", "agents@example.invalid"),
                timestamp=datetime(2026, 7, 3, tzinfo=UTC),
            )
        )
        out = remote.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, pushed.commit_sha)
        changed = {shown(name.decode("utf-8", "surrogateescape")) for name in out.split(b"\0")[:-1]}
        assert set(seen) == changed
