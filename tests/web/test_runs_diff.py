"""A patch on a page: escaped, coloured, with nothing hidden, long files on demand."""

from __future__ import annotations

from typing import Any

import pytest

from runs.domain.patch import read_patch
from runs.selectors.diff import USUAL, Look
from runs.selectors.diff.notes import file_notes
from runs.selectors.diff.rows import Cut, cut_rows


def read(body: str | bytes, path: str = "clock.py", head: str = "") -> Any:
    body = body.encode() if isinstance(body, str) else body
    patch = f"diff --git a/{path} b/{path}\n{head}--- a/{path}\n+++ b/{path}\n".encode() + body
    return read_patch(patch)[0]


def shown(
    body: str | bytes, path: str = "clock.py", look: Look = USUAL, start: int = 0, limit: int = 400
) -> Cut:
    return cut_rows(read(body, path), look, start=start, limit=limit)


def rows(cut: Cut) -> list[Any]:
    return [row for hunk in cut.hunks for row in hunk["rows"]]


def markup(cut: Cut) -> list[str]:
    return [row["html"] for row in rows(cut)]


def note(patch: bytes) -> str:
    return " ".join(file_notes(read_patch(patch)[0]))


def test_lines_are_coloured_and_escaped():
    cut = shown("@@ -1,2 +1,2 @@\n-import os\n+x = '<script>'\n \n")
    assert '<span class="kn">import</span>' in markup(cut)[0]
    assert "<script>" not in markup(cut)[1]
    assert "&lt;script&gt;" in markup(cut)[1]
    assert [row["kind"] for row in rows(cut)] == ["del", "add", "ctx"]


@pytest.mark.parametrize("path", ["clock.py", "unknown.zzz"])
def test_hidden_characters_are_named_isolated_and_kept_for_copying(path: str):
    found = markup(shown("@@ -0,0 +1 @@\n+a = 1  # \u202e reversed\n", path))[0]
    assert '<span class="mark-char"><i>U+202E</i><bdi>\u202e</bdi></span>' in found
    assert found.count("\u202e") == 1


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (b"+norm R\rX done\n", ["<i>\N{SYMBOL FOR CARRIAGE RETURN}</i><bdi>&#13;</bdi>"]),
        (b"+na\xefve caf\xe9\n", [r"<i>\xEF</i>", r"<i>\xE9</i>"]),
        ("+# note\u2028-a = 1\u2028+k\n".encode(), ["<i>U+2028</i>"]),
        (
            b"+a\x0c\x0bb\x00c\n",
            ["<i>\N{SYMBOL FOR FORM FEED}</i>", "<i>U+000B</i>", "<i>U+0000</i></span>c"],
        ),
    ],
    ids=["carriage-return", "latin-1", "line-separator", "controls"],
)
def test_only_a_line_feed_ends_a_line_and_every_odd_byte_is_seen(body: bytes, seen: list[str]):
    (found,) = markup(shown(b"@@ -0,0 +1 @@\n" + body, "m.txt"))
    assert all(mark in found for mark in seen)
    assert not set("\r\x00") & set(found)


def test_letters_of_any_script_are_plain():
    (found,) = markup(shown("@@ -0,0 +1 @@\n+# שלום مرحبا 🧑‍💻\n"))
    assert "mark-char" not in found


def test_a_long_line_says_how_much_of_it_is_left_out():
    (found,) = markup(shown("@@ -0,0 +1 @@\n+" + "x" * 5_000 + "\n"))
    assert "… 1,000 more characters" in found


# --- what changed in a line ------------------------------------------------------------------------

CHANGED = "@@ -1,2 +1,2 @@\n-when = datetime.utcnow()\n+when = datetime.now(UTC)\n same\n"


def test_the_words_that_changed_are_marked():
    old, new, same = markup(shown(CHANGED, "a.zzz"))
    assert old == "when = datetime.<mark>utcnow</mark>()"
    assert new == "when = datetime.<mark>now</mark>(<mark>UTC</mark>)"
    assert "<mark>" not in same


def test_lines_without_likeness_are_changed_as_a_whole():
    assert "<mark>" not in "".join(markup(shown("@@ -1 +1 @@\n-alpha beta\n+1 + 2 == 3\n", "a.zzz")))


def test_a_line_stands_beside_what_it_became():
    old, new = "-def now():\n-    return utcnow()\n", "+import zone\n+def now():\n+    return now(zone)\n"
    body = f"@@ -1,2 +1,3 @@\n{old}{new}"
    pairs = [
        (row["left"] and row["left"]["no"], row["right"] and row["right"]["no"])
        for row in rows(shown(body, "a.zzz", Look(split=True)))
    ]
    assert pairs == [(None, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("split", [False, True])
def test_white_space_can_be_ignored_and_is_counted(split: bool):
    body = "@@ -1,3 +1,3 @@\n-if a:\n-  b()\n+if a:\n+    b()\n-c\n+d\n"
    cut = shown(body, "a.zzz", Look(split=split, ignore_space=True))
    assert cut.spaces == 2
    assert "".join(markup(cut)).count("b()") == 1 if not split else len(rows(cut)) == 3
    assert shown(body, "a.zzz", Look(split=split)).spaces == 0


def test_a_missing_newline_is_a_note_without_a_number():
    body = "@@ -1 +1 @@\n-b\n+b\n\\ No newline at end of file\n"
    kinds = [(row["kind"], row.get("new")) for row in rows(shown(body, "f.txt"))]
    assert kinds == [("del", None), ("add", 1), ("note", None)]


# --- what is not lines -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (b"old mode 100644\nnew mode 100755\n", "The mode changed from 100644 to 100755: now executable."),
        (b"new file mode 100644\nindex 0000000..e69de29\n", "New file, empty."),
        (
            b"new file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n",
            "New file. Symbolic link to /etc/passwd.",
        ),
        (
            b"index 5ea0602..1ffc159 100644\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-na\xefve\n+naive\n",
            r"Not UTF-8: bytes that are no characters are written as \xNN.",
        ),
    ],
    ids=["mode", "empty", "link", "latin-1"],
)
def test_what_changed_beside_lines_is_said(patch: bytes, said: str):
    assert note(b"diff --git a/l b/l\n" + patch) == said


def test_a_pure_rename_is_named():
    patch = b"diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"
    assert note(patch) == "Renamed, nothing else changed."


# --- on demand ---------------------------------------------------------------------------------------


def test_a_long_file_is_shown_piece_by_piece_without_losing_a_line():
    body = "".join(
        f"@@ -{n},0 +{n * 10},4 @@\n" + "".join(f"+x{n}.{i}\n" for i in range(4)) for n in (1, 2, 3)
    )
    pieces: list[list[str]] = []
    start: int | None = 0
    while start is not None:
        cut = shown(body, "a.zzz", start=start, limit=5)
        pieces.append(markup(cut))
        assert cut.next is None or cut.next == start + len(pieces[-1])
        start = cut.next
    assert [len(piece) for piece in pieces] == [5, 5, 2]
    assert [line for piece in pieces for line in piece] == [f"x{n}.{i}" for n in (1, 2, 3) for i in range(4)]


def test_lines_that_a_patch_leaves_out_are_offered():
    body = "@@ -5,2 +5,3 @@\n a\n+b\n c\n@@ -50,1 +51,1 @@\n-d\n+e\n"
    cut = shown(body)
    assert [hunk["gap"] for hunk in cut.hunks] == [
        {"first": 1, "last": 4, "shift": 0},
        {"first": 7, "last": 49, "shift": 1},
    ]
    assert cut.after == (51, 52)
