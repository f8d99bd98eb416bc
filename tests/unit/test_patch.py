"""A patch reads as git printed it: field cases with their exact bytes."""

from __future__ import annotations

import pytest

from runs.domain.patch import (
    AmbiguousPatch,
    NotAPatch,
    PatchFile,
    UnsafePath,
    read_patch,
    read_sections,
    shown,
)
from tests.unit.patch_cases import CASES
from tests.unit.patch_cases_guard import GUARD_CASES

READABLE = {
    name: case
    for name, case in {**CASES, **GUARD_CASES}.items()
    if name
    not in {
        "binary_after_text_plain",
        "traversal",
        "absolute",
        "dotgit",
        "dot_segment",
        "codex_format",
        "short_hunk",
    }
}


def only(name: str) -> PatchFile:
    (file,) = read_patch({**CASES, **GUARD_CASES}[name].patch)
    return file


@pytest.mark.parametrize("name", READABLE)
def test_paths_and_counts_are_those_that_git_lists(name):
    totals: dict[str, tuple[int, int, bool]] = {}
    for added, deleted, path in READABLE[name].numstat:
        before = totals.get(path, (0, 0, False))
        more = (0, 0) if added == "-" else (int(added), int(deleted))
        totals[path] = (before[0] + more[0], before[1] + more[1], added == "-")
    read = {f.path: (f.added, f.deleted, f.binary) for f in read_patch(READABLE[name].patch)}
    assert read == totals


@pytest.mark.parametrize("name", READABLE)
def test_each_file_can_be_read_alone_from_the_index(name):
    patch = READABLE[name].patch
    spans = read_sections(patch)
    assert spans[-1].end == len(patch)
    alone = tuple(file for s in spans for file in read_patch(patch[s.start : s.end]))
    assert alone == read_patch(patch)
    assert [section.file for section in spans] == list(alone)


def test_a_deleted_comment_is_no_file_header():
    file = only("sqlcomment")
    assert len(file.hunks) == 2
    first = file.hunks[0].lines[0]
    assert (first.kind, first.old_no, first.new_no, first.text) == ("deleted", 1, None, "-- old note")
    assert file.hunks[1].header == "select 7;"


def test_quoted_names_are_decoded():
    assert only("quoted_ui").path == "café notes.txt"
    assert only("quoted_tab").path == 'we\tird"q.txt'
    assert only("b_in_name").path == "x b/y.txt"


def test_carriage_returns_stay_where_they_are():
    assert [line.text for line in only("crlf").lines("added")] == ["B\r"]
    assert [line.text for line in only("lone_cr").lines("added")] == ["norm R\rX done"]


def test_only_a_line_feed_ends_a_line():
    first, second = only("ff_ls").lines("added")
    assert first.text == 'b = "\x0c \u2028 \x85 \x1c \x0b end"'
    assert (first.new_no, second.new_no) == (2, 3)
    assert len(list(only("hidden_ls").lines("added"))) == 1


def test_bytes_that_are_not_utf8_are_kept():
    (line,) = only("latin1").lines("added")
    assert line.text.encode("utf-8", "surrogateescape") == b"na\xefve caf\xe9"
    assert shown(line.text) == "na\\xefve caf\\xe9"


def test_a_missing_newline_is_a_note_and_no_line():
    deleted, added = only("noeol_both").hunks[0].lines[1:]
    assert (deleted.ends, added.ends) == (False, False)
    kept, before, after = only("noeol_only").hunks[0].lines
    assert (kept.ends, before.ends, after.ends) == (True, False, True)
    assert (before.text, after.text, after.new_no) == ("b", "b", 2)


def test_binary_files_tell_their_sizes_and_hold_no_text():
    text, picture = read_patch(CASES["binary_after_text"].patch)
    assert (text.added, text.deleted, text.binary) == (1, 1, False)
    assert (picture.binary, picture.binary_sizes, picture.hunks) == (True, (8, 9), ())
    assert only("binary_secret").binary_sizes == (0, 29)


# zlib streams in git's base85 that begin with two sizes, (70000, 70001) and the reverse.
DELTA = b"delta 7\nOc%1vNh~?uVmI(k5xdXlc\n\ndelta 7\nOc%1vVh~>i~mI(k5yaT=f\n\n"


def test_binary_delta_tells_the_sizes_of_the_files():
    patch = (
        b"diff --git a/d.bin b/d.bin\n"
        b"index f4b5e6d6da1b5be4ff1f2a1ec0bd5f1d6f3a1b0e..0b2f4d1ec0bd5f1d6f3a1b0ef4b5e6d6da1b5be4 100644\n"
        b"GIT binary patch\n" + DELTA
    )
    (file,) = read_patch(patch)
    assert file.binary_sizes == (70000, 70001)


def test_changes_without_hunks_are_named():
    mode = only("mode_only")
    assert (mode.status, mode.old_mode, mode.new_mode) == ("modified", "100644", "100755")
    assert (only("empty_new").status, only("empty_new").new_mode) == ("added", "100644")
    renamed = only("rename_edit")
    assert (renamed.status, renamed.old_path, renamed.path) == ("renamed", "src/old.txt", "src/new.txt")
    assert renamed.touched == {"src/old.txt", "src/new.txt"}
    assert (only("deleted").status, only("deleted").deleted) == ("deleted", 2)


def test_a_copy_touches_only_the_new_file():
    patch = b"diff --git a/a.txt b/b.txt\nsimilarity index 100%\ncopy from a.txt\ncopy to b.txt\n"
    (file,) = read_patch(patch)
    assert (file.status, set(file.touched), file.names) == ("copied", {"b.txt"}, ("a.txt", "b.txt"))


def test_links_and_submodules_say_where_they_point():
    assert only("symlink_new").link_target == "../../../etc/passwd"
    changed = only("typechange")
    assert (changed.status, changed.old_mode, changed.new_mode) == ("type_changed", "100644", "120000")
    assert changed.link_target == "/home/someone/.ssh/id_rsa"
    moved = [commit and commit[:7] for commit in only("submodule").submodule or ()]
    assert moved == ["f12ca61", "e8a8581"]
    assert only("submodule_add").submodule == (None, "e8a8581c36bf4b321aa1e33d0178896d5096aca0")


def test_a_binary_change_without_data_says_how_to_make_it():
    with pytest.raises(NotAPatch, match="git diff --binary") as refused:
        read_patch(CASES["binary_after_text_plain"].patch)
    assert (refused.value.code, refused.value.line) == ("not_a_patch", 10)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"\n\n",
        b"<html>502 Bad Gateway</html>",
        b"Here is the patch:\n" + CASES["crlf"].patch,
        CASES["crlf"].patch + b"That was it.\n",
        CASES["crlf"].patch[:-1],
        CASES["crlf"].patch[:-4],
        GUARD_CASES["codex_format"].patch,
        GUARD_CASES["short_hunk"].patch,
        b"diff --cc f\nindex 1,2..3\n",
        b"diff --git a/f b/f\nindex 1111111..2222222 100644\n",
        b"diff --git a/f b/f\nold mode 100644\n",
        b"diff --git a/f b/f\nnew file mode 100666\n",
        b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n",
        b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -0,0 +0,0 @@\n",
        b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1,99999999999 @@\n-a\n+b\n",
        b"diff --git a/f b/f\n--- a/f\n",
        b"diff --git f f\nnew file mode 100644\n",
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        b"diff --git a/f b/f\nindex " + b"1" * 40 + b".." + b"2" * 40 + b"\nGIT binary patch\n",
    ],
)
def test_what_git_would_skip_or_not_apply_is_no_patch(body):
    with pytest.raises(NotAPatch):
        read_patch(body)


def test_the_damaged_line_is_named():
    with pytest.raises(NotAPatch) as refused:
        read_patch(GUARD_CASES["short_hunk"].patch)
    assert refused.value.line == 8


HUNK = b"@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    "patch",
    [
        b"diff --git a/f b/g\n--- a/f\n+++ b/g\n" + HUNK,
        b"diff --git a/f b/f\n--- a/f\n+++ b/g\n" + HUNK,
        b"diff --git a/f b/f\n--- a/g\n+++ b/g\n" + HUNK,
        b"diff --git a/f b/f\nsimilarity index 90%\nrename from f\nrename to g\n",
        b"diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n--- a/g\n+++ b/f\n" + HUNK,
        b"diff --git a/f b/f\nnew file mode 100644\ndeleted file mode 100644\n",
        2 * (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n" + HUNK),
    ],
)
def test_headers_that_disagree_are_ambiguous(patch):
    with pytest.raises(AmbiguousPatch) as refused:
        read_patch(patch)
    assert refused.value.code == "ambiguous_patch"


def new_file(name: bytes) -> bytes:
    return b'diff --git "a/%s" "b/%s"\nnew file mode 100644\nindex 0000000..e69de29\n' % (name, name)


@pytest.mark.parametrize(
    "name",
    [
        rb"..\\..\\x",
        b"a/../../x",
        b"con.txt:stream",
        b"C:/x",
        b".GIT/hooks/x",
        b"git~1/hooks/x",
        rb"a/.git\\hooks",
        b".git /x",
        b".git./x",
        rb".g\342\200\214it/config",
        b"a/./b",
        b"a/",
        rb"nul\000x",
        rb"bell\a",
        rb"line\nfeed",
        rb"c1\302\205",
        rb"\\server",
        b"x" * 5000,
    ],
)
def test_names_that_lead_elsewhere_are_unsafe(name):
    with pytest.raises(UnsafePath) as refused:
        read_patch(new_file(name))
    assert refused.value.code == "unsafe_path"


@pytest.mark.parametrize("name", ["traversal", "absolute", "dotgit", "dot_segment"])
def test_forged_headers_are_unsafe(name):
    with pytest.raises(UnsafePath):
        read_patch(GUARD_CASES[name].patch)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (b".gitignore", ".gitignore"),
        (b"docs/github/x", "docs/github/x"),
        (b"git~x", "git~x"),
        (rb"tab\there", "tab\there"),
        (rb"caf\351", "caf\udce9"),
        (rb"na\303\257ve", "naïve"),
        (b"a..b/...c", "a..b/...c"),
    ],
)
def test_odd_but_harmless_names_are_taken(name, path):
    assert read_patch(new_file(name))[0].path == path


def test_repeated_slashes_and_other_prefixes_follow_git():
    assert only("dbl_slash").path == ".github/workflows/ci.yml"
    assert only("other_prefix").path == ".github/workflows/ci.yml"


def test_a_long_patch_is_indexed_without_losing_a_line():
    body = b"".join(b"+line %d\n" % n for n in range(50_000))
    patch = (
        b"diff --git a/big b/big\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n"
        b"+++ b/big\n@@ -0,0 +1,50000 @@\n" + body
    )
    (span,) = read_sections(patch + CASES["crlf"].patch)[:1]
    assert (span.file.path, span.file.added, span.end) == ("big", 50_000, len(patch))
    (file,) = read_patch(patch)
    assert file.hunks[0].lines[-1] == ("added", None, 50_000, "line 49999", True)
    assert list(file.hunks[0].part(40_000, 40_002)) == list(file.hunks[0].lines[40_000:40_002])
    assert (len(file.hunks[0]), file.hunks[0].ends) == (50_000, (1, 50_001))
