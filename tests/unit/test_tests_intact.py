"""Tests that are deleted, skipped or lose assertions are told; moved and rewritten ones not."""

from __future__ import annotations

import difflib

import pytest

from runs.domain.patch import read_patch
from runs.domain.tests_intact import weakenings


def change(*files: tuple[str, str, str], renamed_from: str | None = None) -> tuple:
    """The patch between (path, before, after) texts; '' before or after: no such file."""
    return read_patch("".join(_file(path, old, new, renamed_from) for path, old, new in files).encode())


def _file(path: str, old: str, new: str, renamed_from: str | None) -> str:
    source = renamed_from or path
    head = f"diff --git a/{source} b/{path}\n"
    if renamed_from:
        head += f"similarity index 50%\nrename from {source}\nrename to {path}\n"
    elif not old:
        head += "new file mode 100644\n"
    elif not new:
        head += "deleted file mode 100644\n"
    sides = (f"a/{source}" if old else "/dev/null", f"b/{path}" if new else "/dev/null")
    rows = difflib.unified_diff(old.splitlines(True), new.splitlines(True), *sides, n=3)
    return head + "".join(row.rstrip("\n") + "\n" for row in rows)


def kinds(*files: tuple[str, str, str], renamed_from: str | None = None) -> list[str]:
    return [w.kind for w in weakenings(change(*files, renamed_from=renamed_from))]


PY = "def test_a():\n    assert f(1) == 2\n    assert f(2) == 3\n\n\ndef test_b():\n    assert g() == 1\n"
JS = "it('adds', () => {\n  expect(add(1)).toBe(3)\n})\n\nit('takes', () => {\n  expect(sub(1)).toBe(0)\n})\n"
GO = 'func TestAdd(t *testing.T) {\n\tif Add(1) != 2 {\n\t\tt.Error("no")\n\t}\n}\n'
JAVA = "class AddTest {\n  @Test\n  void adds() {\n    assertEquals(2, add(1));\n  }\n}\n"
RUBY = "describe 'add' do\n  it 'adds' do\n    expect(add(1)).to eq 2\n  end\nend\n"

DELETED = [
    ("tests/test_x.py", PY, PY.partition("\n\n\n")[0] + "\n"),
    ("tests/test_x.py", PY, ""),
    ("tests/test_x.py", PY, PY.replace("def test_b", "def _test_b")),
    ("pkg/x_test.go", GO, GO.replace("TestAdd", "testAdd")),
    ("src/x.test.ts", JS, JS.partition("\n\nit('takes'")[0] + "\n"),
    ("src/test/java/AddTest.java", JAVA, JAVA.replace("  @Test\n", "")),
    ("spec/add_spec.rb", RUBY, ""),
]


@pytest.mark.parametrize(("path", "old", "new"), DELETED)
def test_a_deleted_test_is_told(path, old, new):
    found = kinds((path, old, new))
    assert found
    assert set(found) == {"test_deleted"}


SKIPPED = [
    ("tests/test_x.py", PY, PY.replace("def test_b", "@pytest.mark.skip\ndef test_b")),
    ("tests/test_x.py", PY, PY.replace("def test_b", "@pytest.mark.xfail(reason='later')\ndef test_b")),
    ("tests/test_x.py", PY, PY.replace("def test_b", "@unittest.skip\ndef test_b")),
    ("tests/test_x.py", PY, PY.replace("():\n    assert g", "():\n    pytest.skip()\n    assert g")),
    ("tests/test_x.py", PY, "pytestmark = pytest.mark.skip\n" + PY),
    ("src/x.test.ts", JS, JS.replace("it('takes'", "it.skip('takes'")),
    ("src/x.spec.js", JS, JS.replace("it('takes'", "xit('takes'")),
    ("src/x.spec.js", JS, JS.replace("it('adds'", "it.only('adds'")),
    ("pkg/x_test.go", GO, GO.replace("\tif", "\tt.Skip()\n\tif")),
    ("src/test/java/AddTest.java", JAVA, JAVA.replace("  void", "  @Disabled\n  void")),
    ("spec/add_spec.rb", RUBY, RUBY.replace("  it 'adds'", "  xit 'adds'")),
]


@pytest.mark.parametrize(("path", "old", "new"), SKIPPED)
def test_a_skipped_test_is_told(path, old, new):
    assert kinds((path, old, new)) == ["test_skipped"]


LOST = [
    ("tests/test_x.py", PY, PY.replace("    assert f(2) == 3\n", "")),
    ("tests/test_x.py", PY, PY.replace("    assert g() == 1", "    # assert g() == 1\n    g()")),
    ("tests/test_x.py", PY, PY.replace("assert g() == 1", "assert True")),
    ("tests/test_x.py", PY, PY.replace("    assert f(2) == 3\n", "") + "\ndef test_c():\n    assert h()\n"),
    ("tests/helpers.py", "def check(x):\n    assert x\n    assert x.y\n", "def check(x):\n    assert x\n"),
    (
        "tests/test_x.py",
        "def check(x):\n    assert x\n    assert x.y\n",
        "def check(x):\n    assert x\n\n\ndef test_new():\n    assert 2\n",
    ),
    ("src/x.test.ts", JS, JS.replace("  expect(sub(1)).toBe(0)\n", "")),
    ("pkg/x_test.go", GO, GO.replace('t.Error("no")', "_ = 1")),
    ("src/test/java/AddTest.java", JAVA, JAVA.replace("assertEquals(2, add(1))", "add(1)")),
    ("spec/add_spec.rb", RUBY, RUBY.replace("expect(add(1)).to eq 2", "add(1)")),
]


@pytest.mark.parametrize(("path", "old", "new"), LOST)
def test_a_lost_assertion_is_told(path, old, new):
    assert kinds((path, old, new)) == ["assertion_lost"]


INTACT = [
    ("renamed test", [("tests/test_x.py", PY, PY.replace("test_b", "test_better"))]),
    ("rewritten test", [("tests/test_x.py", PY, PY.replace("assert g() == 1", "assert g(x=2) == 5"))]),
    ("new test", [("tests/test_x.py", PY, PY + "\n\ndef test_c():\n    assert h()\n")]),
    (
        "new test, skipped",
        [("tests/test_x.py", PY, PY + "\n\n@pytest.mark.skip\ndef test_c():\n    assert h()\n")],
    ),
    ("new file", [("tests/test_y.py", "", PY)]),
    ("moved file content", [("tests/test_x.py", PY, ""), ("tests/unit/test_x.py", "", PY)]),
    (
        "moved test",
        [
            ("tests/test_x.py", PY, PY.partition("\n\n\n")[0] + "\n"),
            ("tests/test_y.py", "", "def test_b():\n    assert g() == 1\n"),
        ],
    ),
    (
        "assertions into a helper",
        [
            (
                "tests/test_x.py",
                PY,
                "def check():\n    assert f(1) == 2\n    assert f(2) == 3\n\n\n"
                + PY.replace("    assert f(1) == 2\n    assert f(2) == 3\n", "    check()\n"),
            )
        ],
    ),
    (
        "split in two",
        [("tests/test_x.py", PY, PY.replace("    assert f(2)", "\n\ndef test_a_more():\n    assert f(2)"))],
    ),
    ("unskipped", [("tests/test_x.py", "@pytest.mark.skip\n" + PY, PY)]),
    ("skip re-worded in place", [("src/x.test.ts", JS, JS.replace("sub(1)", "sub(2)"))]),
    (
        "production code",
        [("src/app.py", "def f():\n    assert x\n    return 1\n", "def f():\n    return 1\n")],
    ),
    (
        "indented",
        [
            (
                "tests/test_x.py",
                "def test_a():\n    assert x\n",
                "def test_a():\n    if y:\n        assert x\n",
            )
        ],
    ),
]


@pytest.mark.parametrize(("what", "files"), INTACT, ids=[what for what, _ in INTACT])
def test_moved_renamed_and_rewritten_tests_are_intact(what, files):
    assert weakenings(change(*files)) == []


def test_a_test_file_with_a_name_that_no_runner_collects_is_told():
    after = PY.replace("g() == 1", "g() == 2")
    assert kinds(("tests/old_x.py", PY, after), renamed_from="tests/test_x.py") == ["test_deleted"]
    assert kinds(("tests/test_y.py", PY, after), renamed_from="tests/test_x.py") == []


def test_a_weakening_names_place_and_test():
    (found,) = weakenings(change(LOST[0]))
    assert (found.path, found.line) == ("tests/test_x.py", 3)
    assert found.detail == "test_a loses 1 of its assertions"


SETTINGS = [
    (
        "pyproject.toml",
        "[tool.pytest.ini_options]\naddopts = '-q'\n",
        "[tool.pytest.ini_options]\naddopts = '-k x'\n",
    ),
    ("pyproject.toml", "[tool.mypy]\nstrict = true\n", "[tool.mypy]\nstrict = false\n"),
    ("tox.ini", "[testenv]\ncommands = pytest\n", "[testenv]\ncommands = true\n"),
    ("setup.cfg", "[tool:pytest]\na = 1\n", "[tool:pytest]\na = 2\n"),
    ("pytest.ini", "", "[pytest]\naddopts = --ignore=tests/slow\n"),
    ("tests/conftest.py", "import os\n", "import os\ncollect_ignore = ['test_x.py']\n"),
    ("conftest.py", "", "def pytest_collection_modifyitems(items):\n    items.clear()\n"),
    (".github/workflows/ci.yml", "run: pytest\n", "run: pytest || true\n"),
    (".gitlab-ci.yml", "script: pytest\n", ""),
    (
        "package.json",
        '{\n  "scripts": {\n    "test": "jest"\n  }\n}\n',
        '{\n  "scripts": {\n    "test": "true"\n  }\n}\n',
    ),
    ("Makefile", "test:\n\tpytest\n", "test:\n\ttrue\n"),
    ("jest.config.js", "module.exports = {}\n", "module.exports = {testPathIgnorePatterns: ['.']}\n"),
    ("pom.xml", "<a/>\n", "<skipTests>true</skipTests>\n"),
]


@pytest.mark.parametrize(("path", "old", "new"), SETTINGS)
def test_a_change_of_what_the_verifiers_run_is_told(path, old, new):
    found = kinds((path, old, new))
    assert found == ["verifier_config_changed"]


UNRELATED = [
    ("pyproject.toml", "[project]\nversion = '1'\n", "[project]\nversion = '2'\n"),
    ("package.json", '{\n  "version": "1",\n  "x": 1\n}\n', '{\n  "version": "2",\n  "x": 1\n}\n'),
    ("Makefile", "build:\n\tcc a.c\n", "build:\n\tcc b.c\n"),
    ("tests/conftest.py", "X = 1\n", "X = 2\n"),
    (".github/workflows/new.yml", "", "on: push\n"),
    ("docs/test.md", "a\n", "b\n"),
]


@pytest.mark.parametrize(("path", "old", "new"), UNRELATED)
def test_other_settings_are_no_weakening(path, old, new):
    assert kinds((path, old, new)) == []
