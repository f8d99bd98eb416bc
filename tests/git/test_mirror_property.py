"""For any two trees: the paths read from git's patch, those that the guards see, and those in which the
pushed tree differs from its base are the same."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runs.domain import guards
from runs.domain.patch import NotAPatch, read_patch, read_sections, shown
from runs.domain.patch.reading import patch_facts
from runs.domain.paths import path_problem
from runs.mirrors import Mirror
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


Pair = tuple[dict[str, tuple[str, bytes]], dict[str, tuple[str, bytes]]]


@pytest.mark.parametrize("count", [25, pytest.param(1_000, marks=pytest.mark.long)])
def test_reader_git_and_pushed_tree_agree_on_every_change(tmp_path, count):
    """One repository for all examples: each is a commit of its own, and pushed to a branch of its own."""
    remote = Remote(tmp_path / "remote.git")
    mirror = mirror_of(remote, tmp_path)
    number = itertools.count()

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(edits())
    def agree(pair: Pair) -> None:
        _agree(remote, mirror, pair, branch=f"agent/r{next(number)}")

    agree()


def _agree(remote: Remote, mirror: Mirror, pair: Pair, *, branch: str) -> None:
    before, after = ([(path, *entry) for path, entry in tree.items()] for tree in pair)
    base, wanted = remote.commit(before), remote.tree(after)
    patch = remote.diff(base, wanted)
    if not patch:
        return
    mirror.fetch(branch="main")
    try:
        reading = mirror.read(patch, base)
    except NotAPatch:
        # A folder named ' ', or a link that makes room for a folder: git refuses its own diff.
        assert not remote.takes(patch, base)
        return
    assert reading.tree == wanted
    expected = {path for path in pair[0].keys() | pair[1].keys() if pair[0].get(path) != pair[1].get(path)}
    assert reading.paths == expected
    assert {path for file in reading.files for path in file.touched} == expected
    spans = read_sections(patch)
    assert [read_patch(patch[s.start : s.end])[0] for s in spans] == list(reading.files)
    seen = guards.paths_of(patch_facts(reading.files, reading.word, key=b"a key of tests"))
    pushed = _push(mirror, patch, base=base, paths=reading.paths, branch=branch)
    assert remote.branches()[branch] == pushed
    assert set(seen) == {shown(path) for path in _differing(remote, base, pushed)}


def _push(mirror: Mirror, patch: bytes, *, base: str, paths: frozenset[str], branch: str) -> str:
    change = Change(
        base_commit=base,
        patch=patch,
        approved_paths=paths,
        branch=branch,
        message="x",
        author=Author("Agent Platform", "agents@example.invalid"),
        timestamp=datetime(2026, 7, 3, tzinfo=UTC),
    )
    return GitProvider(mirror).create(change).commit_sha


def _differing(remote: Remote, base: str, pushed: str) -> set[str]:
    """The paths in which the pushed commit's tree differs from its base, as the repository itself says."""
    out = remote.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, pushed)
    return {name.decode("utf-8", "surrogateescape") for name in out.split(b"\0")[:-1]}
