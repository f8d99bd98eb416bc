"""The stored reading: complete in its paths, fit for a database, silent about secrets."""

from __future__ import annotations

import json

import pytest

from runs.domain.patch import read_patch
from runs.domain.patch.invisible import hidden_in, invisible_characters
from runs.domain.patch.reading import LIMIT, GitWord, patch_facts
from tests.unit.patch_cases import CASES, KEY
from tests.unit.patch_cases_guard import GUARD_CASES

ALL = {**CASES, **GUARD_CASES}
BASE = GitWord(commit="1" * 40)


def facts_of(name: str, git: GitWord = BASE) -> dict:
    return patch_facts(read_patch(ALL[name].patch), git)


def test_nobody_asked_git_is_not_the_same_as_applies():
    facts = facts_of("crlf")
    assert facts["base"] == {
        "commit": "1" * 40,
        "applies": None,
        "head": None,
        "applies_to_head": None,
        "why": "",
    }
    assert facts["tree"] is None


def test_every_touched_path_is_listed():
    facts = facts_of("rename_edit")
    assert facts["paths"] == ["src/new.txt", "src/old.txt"]
    assert facts["files"] == [
        {
            "path": "src/new.txt",
            "old_path": "src/old.txt",
            "status": "renamed",
            "old_mode": "100644",
            "new_mode": "100644",
            "added": 1,
            "deleted": 1,
            "binary": False,
        }
    ]
    assert (facts["added"], facts["deleted"]) == (1, 1)


@pytest.mark.parametrize("name", ["secret_added", "secret_allow", "hidden_ls"])
def test_a_secret_is_never_in_the_reading(name):
    facts = facts_of(name)
    assert [found["line"] for found in facts["secrets"]] == [2]
    assert KEY not in json.dumps(facts)
    assert KEY[4:12] not in json.dumps(facts)


@pytest.mark.parametrize(
    ("name", "special"),
    [
        ("symlink_new", {"kind": "symlink", "detail": "symlink -> ../../../etc/passwd", "outside": True}),
        ("submodule", {"kind": "submodule", "detail": "submodule f12ca61 -> e8a8581"}),
        ("submodule_add", {"kind": "submodule", "detail": "submodule none -> e8a8581"}),
        ("mode_only", {"kind": "executable", "detail": "mode 100644 -> 100755"}),
    ],
)
def test_special_files_are_named(name, special):
    (found,) = facts_of(name)["special"]
    assert found.pop("path") == ALL[name].numstat[0][2]
    assert found == special


def test_a_file_that_becomes_a_link_is_named_twice():
    link, change = facts_of("typechange")["special"]
    assert (link["kind"], link["outside"]) == ("symlink", True)
    assert change["detail"] == "file type 100644 -> 120000"


def link(path: str, target: str) -> dict:
    patch = (
        f"diff --git a/{path} b/{path}\nnew file mode 120000\nindex 0000000..1111111\n--- /dev/null\n"
        f"+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
    )
    (found,) = patch_facts(read_patch(patch.encode()), BASE)["special"]
    return found


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "c:\\x", "..\\..\\x", "../.git/config"])
def test_a_link_out_of_the_repository_is_marked(target):
    assert link("a/link", target)["outside"] is True


@pytest.mark.parametrize("target", ["b", "../b", "./b/../c", ".", ".."])
def test_a_link_within_the_repository_is_not(target):
    assert link("a/link", target)["outside"] is False


def test_git_has_the_last_word_on_modes_and_links():
    patch = b"diff --git a/a/l b/l\nsimilarity index 100%\nrename from a/l\nrename to l\n"
    word = GitWord(
        commit="1" * 40,
        applies=True,
        modes={"a/l": ("120000", None), "l": (None, "120000")},
        links={"l": "../x"},
    )
    facts = patch_facts(read_patch(patch), word)
    assert (facts["files"][0]["old_mode"], facts["files"][0]["new_mode"]) == ("120000", "120000")
    assert facts["special"][0]["outside"] is True


@pytest.mark.parametrize("name", [".gitattributes", "sub/.gitmodules"])
def test_files_that_steer_git_are_special(name):
    patch = f"diff --git a/{name} b/{name}\nnew file mode 100644\nindex 0000000..e69de29\n"
    (found,) = patch_facts(read_patch(patch.encode()), BASE)["special"]
    assert found["kind"] == name.rpartition("/")[2][1:]


def test_long_lists_are_cut_and_say_so():
    lines = b"".join(b"+a\xe2\x80\x8bb\n" for _ in range(LIMIT + 7))
    patch = (
        b"diff --git a/z b/z\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/z\n"
        b"@@ -0,0 +1,%d @@\n" % (LIMIT + 7) + lines
    )
    facts = patch_facts(read_patch(patch), BASE)
    assert len(facts["invisible"]) == LIMIT
    assert facts["more"] == {"invisible": 7}


@pytest.mark.parametrize("name", ["latin1", "ff_ls", "quoted_tab", "binary_secret", "bidi"])
def test_a_reading_can_always_be_stored(name):
    text = json.dumps(facts_of(name), ensure_ascii=False)
    assert json.loads(text.encode("utf-8")) == facts_of(name)


def test_a_name_that_is_not_utf8_keeps_its_bytes():
    patch = b'diff --git "a/caf\\351" "b/caf\\351"\nnew file mode 100644\nindex 0000000..e69de29\n'
    (file,) = patch_facts(read_patch(patch), BASE)["files"]
    assert (file["path"], file["path_bytes"]) == ("caf\\xe9", b"caf\xe9".hex())


def test_hidden_characters_of_the_field_cases():
    found = invisible_characters(read_patch(ALL["bidi"].patch))
    assert [(f.line, f.codepoint) for f in found] == [
        (2, "U+202E"),
        (2, "U+2066"),
        (2, "U+2069"),
        (2, "U+2066"),
    ]
    assert [f.codepoint for f in invisible_characters(read_patch(ALL["zwsp"].patch))] == ["U+200B"]
    assert [f.codepoint for f in invisible_characters(read_patch(ALL["ff_ls"].patch))] == [
        "U+2028",
        "U+0085",
        "U+001C",
        "U+000B",
    ]


def test_hidden_characters_in_names_are_found():
    patch = "diff --git a/a\u202eb b/a\u202eb\nnew file mode 100644\nindex 0000000..e69de29\n"
    assert invisible_characters(read_patch(patch.encode())) == [("a\u202eb", 0, "U+202E")]


@pytest.mark.parametrize(
    "text", ["# שלום עולם", "# مرحبا بالعالم", "\ttab\x0c\r", "naïve café", "👩\u200d💻 ❤️", "漢字 かな"]
)
def test_letters_of_any_script_are_plain(text):
    assert hidden_in(text) == []


@pytest.mark.parametrize(
    "text", ["a\u200db", "a\u00adb", "a\ufeffb", "\u3164", "\x1b[31m", "\x7f", "\U000e0041", "\u2029"]
)
def test_what_no_reader_sees_is_hidden(text):
    assert len(hidden_in(text)) == 1


def test_a_byte_order_mark_may_begin_a_file():
    assert hidden_in("\ufeffx", starts_file=True) == []
    assert hidden_in("\ufeffx") == ["U+FEFF"]
