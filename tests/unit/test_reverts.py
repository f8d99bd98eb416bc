"""A revert is a commit that names the change, or one whose difference is its exact inverse."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runs.domain.reverts import Commit, Landed, find_revert

AT = datetime(2026, 11, 1, tzinfo=UTC)
OWN = "a1b2c3d" + "0" * 33
SQUASHED, MERGED, LATER, OTHER = "b" * 40, "c" * 40, "d" * 40, "e" * 40
LANDED = Landed(frozenset({OWN}), frozenset({"app.py"}), "difference")


def commit(sha: str, message: str = "x", *, changes: str = "", undoes: str = "", merges: str = "") -> Commit:
    parents = ("f" * 40, merges) if merges else ("f" * 40,)
    return Commit(sha, parents, AT, message, frozenset({"app.py"}), changes, undoes)


OWN_COMMIT = commit(OWN)


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ([OWN_COMMIT, commit(LATER, f'Revert "Do it"\n\nThis reverts commit {OWN}.')], LATER),
        ([OWN_COMMIT, commit(LATER, "reverted a1b2c3d, it broke the tests")], LATER),
        ([OWN_COMMIT, commit(LATER, f"Go on after {OWN}")], None),
        ([OWN_COMMIT, commit(LATER, f"This reverts commit {OTHER}.")], None),
        ([OWN_COMMIT, commit(LATER, undoes="difference")], LATER),
        ([OWN_COMMIT, commit(LATER, undoes="another")], None),
        # By its squashed commit, and by its merge.
        ([commit(SQUASHED, changes="difference"), commit(LATER, f"This reverts commit {SQUASHED}.")], LATER),
        ([commit(MERGED, merges=OWN), commit(LATER, f"This reverts commit {MERGED}, reversing …")], LATER),
        # What undid the same before it landed was no revert of it.
        ([commit(LATER, undoes="difference"), OWN_COMMIT], None),
        # Of two the first.
        ([OWN_COMMIT, commit(LATER, undoes="difference"), commit(OTHER, undoes="difference")], LATER),
        ([OWN_COMMIT], None),
        ([], None),
    ],
)
def test_a_revert_names_the_change_or_is_its_inverse(history, found):
    by = find_revert(LANDED, history)
    assert (by.sha if by else None) == found


def test_a_change_whose_bytes_are_gone_is_still_known_by_its_commits():
    known = Landed(frozenset({OWN}), frozenset())
    assert find_revert(known, [OWN_COMMIT, commit(LATER, undoes="")]) is None
    assert find_revert(known, [OWN_COMMIT, commit(LATER, f"This reverts commit {OWN}.")])
