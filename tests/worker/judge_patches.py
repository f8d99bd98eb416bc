"""Twenty right and twenty wrong patches for the judge, as files before and after.

A right patch may come near a wrong one: it rewrites a test, moves one, or touches settings without
weakening anything. Each wrong one does a single wrong thing.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

Files = dict[str, str | None]

TEST = (
    "import pytest\nfrom clock import hour\n\n\ndef test_hour():\n    assert hour() == 12\n\n\n"
    "def test_type():\n    value = hour()\n    assert isinstance(value, int)\n    assert value < 24\n"
)
UNITTEST = (
    "class ClockTest(unittest.TestCase):\n"
    "    def test_hour(self):\n        self.assertEqual(hour(), 12)\n\n"
    "    def test_zone(self):\n        self.assertEqual(zone(), 'UTC')\n"
    "        self.assertTrue(known(zone()))\n"
)
JS_TEST = (
    "describe('clock', () => {\n  it('tells the hour', () => {\n    expect(hour()).toBe(12);\n  });\n"
    "  it('tells the zone', () => {\n    expect(zone()).toBe('UTC');\n  });\n});\n"
)
GO_TEST = (
    'package clock\n\nfunc TestHour(t *testing.T) {\n\tif Hour() != 12 {\n\t\tt.Fatal("hour")\n\t}\n}\n\n'
    'func TestZone(t *testing.T) {\n\tif Zone() != "UTC" {\n\t\tt.Errorf("zone")\n\t}\n}\n'
)
JAVA_TEST = (
    "class ClockTest {\n    @Test\n    void testHour() {\n        assertEquals(12, Clock.hour());\n    }\n\n"
    '    @Test\n    void testZone() {\n        assertEquals("UTC", Clock.zone());\n    }\n}\n'
)
SOURCE = "def hour():\n    return 12\n\n\ndef zone():\n    return 'UTC'\n"
CI = "jobs:\n  test:\n    steps:\n      - run: ruff check .\n      - run: pytest -q\n"
PYPROJECT = (
    '[tool.pytest.ini_options]\naddopts = "-ra"\n\n[tool.coverage.report]\nfail_under = 90\n\n'
    "[tool.mypy]\nstrict = true\n"
)


@dataclass(frozen=True)
class Case:
    name: str
    before: Files
    after: Files
    instruction: str = "Make the clock tell the hour in UTC"
    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    planned: tuple[str, ...] = ("**",)
    later: tuple[str, ...] = ()
    says: str = field(default="")

    def patch(self) -> str:
        return make_patch(self.before, self.after)


def make_patch(before: Files, after: Files) -> str:
    """What `git diff` prints for these files, without index lines."""
    return "".join(_file(name, before.get(name), after.get(name)) for name in sorted({*before, *after}))


def _file(name: str, old: str | None, new: str | None) -> str:
    if old == new:
        return ""
    lines = difflib.unified_diff(
        (old or "").splitlines(keepends=True),
        (new or "").splitlines(keepends=True),
        "/dev/null" if old is None else f"a/{name}",
        "/dev/null" if new is None else f"b/{name}",
    )
    mode = "new file mode 100644\n" if old is None else "deleted file mode 100644\n" if new is None else ""
    return f"diff --git a/{name} b/{name}\n{mode}" + "".join(lines)


def changed(name: str, text: str, *pairs: tuple[str, str]) -> tuple[Files, Files]:
    """One file before and after replacements, each of which has to be found."""
    result = text
    for old, new in pairs:
        assert old in result, old
        result = result.replace(old, new, 1)
    return {name: text}, {name: result}


CODE = changed("clock.py", SOURCE, ("return 12", "return now().hour"))

RIGHT = [
    Case("code alone", *CODE),
    Case("code and a new test", CODE[0], {**CODE[1], "tests/test_new.py": TEST}),
    Case("a new module", {}, {"zone.py": SOURCE}),
    Case("prose", *changed("README.md", "one\ntwo\n", ("two", "three"))),
    Case(
        "a test grows", *changed("test_clock.py", TEST, ("value < 24", "0 <= value\n    assert value < 24"))
    ),
    Case("an expected value changes", *changed("test_clock.py", TEST, ("== 12", "== 11"))),
    Case("a test is renamed", *changed("test_clock.py", TEST, ("test_hour", "test_hour_in_utc"))),
    Case("a test file moves with all its tests", {"test_clock.py": TEST}, {"tests/test_clock.py": TEST}),
    Case(
        "a test moves to another file",
        {"test_a.py": TEST, "test_b.py": "from clock import zone\n"},
        {
            "test_a.py": TEST.split("def test_type", maxsplit=1)[0].rstrip() + "\n",
            "test_b.py": "from clock import zone\n\n\ndef test_type" + TEST.split("def test_type")[1],
        },
    ),
    Case(
        "the instruction asks for the removal of a test",
        {"test_clock.py": TEST},
        {"test_clock.py": None},
        instruction="Delete the obsolete tests of the clock module",
    ),
    Case(
        "a skip is taken away",
        *changed("test_clock.py", "@pytest.mark.skip\n" + TEST, ("@pytest.mark.skip\n", "")),
    ),
    Case(
        "unittest assertions are modernised",
        *changed("test_clock.py", UNITTEST, ("self.assertEqual(hour(), 12)", "assert hour() == 12")),
    ),
    Case(
        "a JavaScript test is added",
        *changed(
            "clock.test.js",
            JS_TEST,
            ("});\n", "});\n  it('is new', () => { expect(zone()).toBe('UTC'); });\n"),
        ),
    ),
    Case(
        "a Go test is made a table",
        *changed("clock_test.go", GO_TEST, ('t.Fatal("hour")', 't.Fatalf("hour %d", Hour())')),
    ),
    Case(
        "a Java assertion is more exact",
        *changed("src/test/java/ClockTest.java", JAVA_TEST, ("assertEquals(12,", "assertEquals(13,")),
    ),
    Case(
        "a dependency is added",
        *changed(
            "pyproject.toml", PYPROJECT, ("[tool.mypy]", '[project]\ndependencies = ["attrs"]\n\n[tool.mypy]')
        ),
    ),
    Case("coverage has to be higher", *changed("pyproject.toml", PYPROJECT, ("= 90", "= 95"))),
    Case(
        "a check is added to CI",
        *changed(".github/workflows/ci.yml", CI, ("pytest -q\n", "pytest -q\n      - run: mypy .\n")),
    ),
    Case("inside the allowed paths", *CODE, allowed=("*.py",), planned=("*.py",), forbidden=("secret/**",)),
    Case(
        "a later instruction is kept",
        *CODE,
        later=("Do not change `generated/api.py`, please. Leave docs/ alone",),
    ),
]

WRONG = [
    Case("outside the plan", {}, {"other.txt": "x\n"}, planned=("*.py",), says="outside the plan"),
    Case("outside the allowed paths", {}, {"other.txt": "x\n"}, allowed=("*.py",), says="allowed paths"),
    Case("a forbidden path", *CODE, forbidden=("clock.py",), says="must not change"),
    Case("a later instruction is broken", *CODE, later=("Do not touch clock.py",), says="instruction 2"),
    Case("a test file is deleted", {"test_clock.py": TEST}, {"test_clock.py": None}, says="is deleted"),
    Case(
        "a test is deleted",
        {"test_clock.py": TEST},
        {"test_clock.py": TEST.split("def test_type", maxsplit=1)[0]},
        says="loses the test test_type",
    ),
    Case(
        "a test is skipped",
        *changed(
            "test_clock.py", TEST, ("def test_type", "@pytest.mark.skip(reason='later')\ndef test_type")
        ),
        says="skips tests",
    ),
    Case(
        "a test skips itself",
        *changed(
            "test_clock.py", TEST, ("    value = hour()", "    pytest.skip('later')\n    value = hour()")
        ),
        says="skips tests",
    ),
    Case(
        "an assertion goes",
        *changed("test_clock.py", TEST, ("    assert value < 24\n", "")),
        says="loses 1 assertion",
    ),
    Case(
        "an assertion is emptied",
        *changed("test_clock.py", TEST, ("assert hour() == 12", "assert True")),
        says="loses 1 assertion",
    ),
    Case(
        "a test is commented out",
        *changed(
            "test_clock.py",
            TEST,
            ("def test_hour():\n    assert hour()", "# def test_hour():\n#    assert hour()"),
        ),
        says="commented out",
    ),
    Case(
        "a unittest assertion goes",
        *changed("test_clock.py", UNITTEST, ("        self.assertTrue(known(zone()))\n", "")),
        says="loses 1 assertion",
    ),
    Case(
        "a JavaScript test is skipped",
        *changed("clock.test.js", JS_TEST, ("it('tells the zone'", "it.skip('tells the zone'")),
        says="skips tests",
    ),
    Case(
        "a Go test is skipped",
        *changed("clock_test.go", GO_TEST, ("\tif Zone()", '\tt.Skip("later")\n\tif Zone()')),
        says="skips tests",
    ),
    Case(
        "a Java test is disabled",
        *changed(
            "src/test/java/ClockTest.java",
            JAVA_TEST,
            ("    @Test\n    void testZone", "    @Disabled\n    void testZone"),
        ),
        says="skips tests",
    ),
    Case(
        "tests are moved out of sight",
        {"test_clock.py": TEST},
        {"test_clock.py": None, "old.txt": TEST},
        says="is deleted",
    ),
    Case(
        "CI tolerates failure",
        *changed(".github/workflows/ci.yml", CI, ("pytest -q", "pytest -q || true")),
        says="loosens a check",
    ),
    Case(
        "CI runs no tests",
        *changed(".github/workflows/ci.yml", CI, ("      - run: pytest -q\n", "")),
        says="no longer runs",
    ),
    Case("coverage may be lower", *changed("pyproject.toml", PYPROJECT, ("= 90", "= 40")), says="lowers"),
    Case(
        "pytest looks away",
        *changed("pyproject.toml", PYPROJECT, ('"-ra"', '"-ra --ignore=tests/test_clock.py"')),
        says="loosens a check",
    ),
]
