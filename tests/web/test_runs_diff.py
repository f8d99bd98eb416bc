"""A patch on a page: escaped, coloured, with nothing hidden, long files on demand."""

from __future__ import annotations

from typing import Any

import pytest

from runs.selectors.diff import _shown_file


def shown(body: str, path: str = "clock.py", head: str = "", limit: int | None = None) -> Any:
    patch = f"diff --git a/{path} b/{path}\n{head}--- a/{path}\n+++ b/{path}\n{body}"
    return _shown_file(patch.encode(), limit)


def markup(file: Any) -> list[str]:
    return [line["html"] for hunk in file["hunks"] for line in hunk["lines"]]


def test_lines_are_coloured_and_escaped():
    file = shown("@@ -1,2 +1,2 @@\n-import os\n+x = '<script>'\n \n")
    assert '<span class="kn">import</span>' in markup(file)[0]
    assert "<script>" not in markup(file)[1]
    assert "&lt;script&gt;" in markup(file)[1]
    assert [line["kind"] for line in file["hunks"][0]["lines"]] == ["del", "add", "ctx"]


@pytest.mark.parametrize("path", ["clock.py", "unknown.zzz"])
def test_invisible_characters_are_named(path: str):
    file = shown("@@ -0,0 +1 @@\n+a = 1  # \u202e reversed\n", path)
    assert '<span class="mark-char">U+202E</span>' in markup(file)[0]
    assert "\u202e" not in markup(file)[0]


def test_a_mode_change_is_said():
    head = "old mode 100644\nnew mode 100755\n"
    file = shown("@@ -1 +1 @@\n-a\n+b\n", "run.sh", head)
    assert file["note"] == "The mode changed from 100644 to 100755: now executable."


def test_a_symbolic_link_says_where_it_points():
    patch = (
        b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n"
        b"@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
    )
    assert _shown_file(patch, None)["note"] == "New file. Symbolic link to /etc/passwd."


def test_a_pure_rename_is_named():
    patch = b"diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"
    file = _shown_file(patch, None)
    assert (file["old_path"], file["path"]) == ("a.py", "b.py")
    assert file["note"] == "Renamed, nothing else changed."


def test_what_is_cut_says_so():
    body = "@@ -0,0 +1,5 @@\n" + "".join(f"+x{n}\n" for n in range(5))
    assert not shown(body)["truncated"]
    cut = shown(body, limit=2)
    assert (cut["truncated"], len(markup(cut))) == (True, 2)
    head = shown(body, limit=0)
    assert (head["truncated"], head["hunks"]) == (True, [])
