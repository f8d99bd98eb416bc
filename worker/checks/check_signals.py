"""What in a patch weakens the checks: tests gone, skipped or emptied, verifier and CI settings.

Pure, and only about what the lines of a patch show. Each finding is a sentence for people.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from worker.checks.globs import matches
from worker.checks.patch import FileChange

TEST_PATHS = (
    "test_*.py",
    "*_test.py",
    "tests.py",
    "tests/**",
    "test/**",
    "**/tests/**",
    "**/test/**",
    "__tests__/",
    "*.test.[jt]s",
    "*.test.[jt]sx",
    "*.test.mjs",
    "*.spec.[jt]s",
    "*.spec.[jt]sx",
    "*_test.go",
    "src/test/**",
    "*Test.java",
    "*Tests.java",
    "*IT.java",
    "*_spec.rb",
    "*_test.rs",
)
CHECK_SETTINGS = (
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "noxfile.py",
    "conftest.py",
    ".coveragerc",
    "mypy.ini",
    "ruff.toml",
    ".ruff.toml",
    ".flake8",
    ".pre-commit-config.yaml",
    "package.json",
    "jest.config.*",
    "vitest.config.*",
    "karma.conf.js",
    ".eslintrc*",
    "eslint.config.*",
    "tsconfig*.json",
    "Makefile",
    "pom.xml",
    "build.gradle*",
    ".golangci.y*ml",
    ".github/workflows/**",
    ".gitlab-ci.yml",
    ".circleci/**",
    "azure-pipelines.yml",
    "Jenkinsfile",
    ".travis.yml",
    ".ci/**",
)
# Deleting one of these takes no check away by itself; deleting any other does.
_MAY_BE_DELETED = ("package.json", "pyproject.toml", "Makefile", "tsconfig*.json")

_TEST = re.compile(
    r"""^\s*(?:
        (?:async\s+)?def\s+(?P<python>test\w*)
      | func\s+(?P<go>(?:Test|Fuzz)\w*)\s*\(
      | (?:it|test)(?:\.\w+)*\s*\(\s*(?P<js>["'`][^"'`]*["'`])
      | (?:public\s+|private\s+|protected\s+)?void\s+(?P<java>\w*[Tt]est\w*|should\w+)\s*\(
    )""",
    re.VERBOSE,
)
_ASSERTION = re.compile(
    r"""
      ^\s*assert\b | \bself\.assert\w+\s*\( | \bpytest\.(?:raises|warns)\s*\( | \.assert_\w+\s*\(
    | \bexpect\s*\( | \bassert(?:\.\w+)?\s*\( | \bshould\.\w+
    | \bt\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\( | \b(?:require|assert)\.\w+\s*\(
    | \bassert[A-Z]\w*\s*\( | \bassertThat\s*\( | \bverify\s*\(
    """,
    re.VERBOSE,
)
_EMPTY_ASSERTION = re.compile(
    r"""
      ^\s*assert\s+(?:True|1|not\s+False|not\s+None)\s*(?:,.*|\#.*)?$
    | \bassert(?:True|\.ok|\.isTrue|_)?\s*\(\s*(?:True|true|1)\s*[,)]
    | \bassertFalse\s*\(\s*(?:False|false)\s*[,)]
    | \bassertEquals?\s*\(\s*(?P<same>[\w.'"]+)\s*,\s*(?P=same)\s*\)
    | ^\s*assert\s+(?P<left>[\w.'"()]+)\s*==\s*(?P=left)\s*(?:\#.*)?$
    | \bexpect\s*\(\s*true\s*\)\s*\.\s*(?:toBe\s*\(\s*true\s*\)|toBeTruthy)
    """,
    re.VERBOSE,
)
_SKIP = re.compile(
    r"""
      @(?:pytest\.mark\.(?:skip|skipif|xfail)|unittest\.(?:skip\w*|expectedFailure))\b
    | \bpytest\.(?:skip|xfail|importorskip)\s*\( | \bpytestmark\s*=.*\b(?:skip|skipif|xfail)\b
    | \bself\.skipTest\s*\( | \braise\s+(?:unittest\.)?SkipTest\b | ^\s*__test__\s*=\s*False
    | \b(?:it|test|describe|context|suite)\.(?:skip|todo|fails)\b
    | ^\s*(?:xit|xtest|xdescribe|fit|fdescribe)\s*\( | \b(?:it|test|describe)\.only\b
    | \bt\.Skip(?:f|Now)?\s*\( | ^//\s*\+build\s+ignore | ^//go:build\s+ignore
    | @(?:Disabled|Ignore)\b | \bassume(?:True|False|That)\s*\(
    """,
    re.VERBOSE,
)
_WEAKER_SETTING = re.compile(
    r"""
      --(?:ignore(?:-glob)?|deselect)[=\s] | -k\s*["']?not\b | -m\s*["']?not\b
    | \b(?:collect_ignore(?:_glob)?|norecursedirs|testPathIgnorePatterns|exclude_lines)\b
    | --no-?verify\b | --passWithNoTests\b | --forceExit\b | --exit-zero\b | --no-error-on\b
    | \|\|\s*(?:true|:|exit\s+0)(?![\w-]) | ;\s*(?:true|exit\s+0)\s*["']?\s*,?\s*$ | ^\s*set\s+\+e\b
    | \bcontinue-on-error:\s*true | \ballow_failure:\s*true | \bif:\s*(?:false|\$\{\{\s*false)
    | -DskipTests | -Dmaven\.test\.skip | <skip(?:Tests)?>true | \benabled\s*=\s*false
    | \bignore_errors\s*=\s*(?:[Tt]rue|1) | \bignore_missing_imports\s*=\s*[Tt]rue
    | \bskip_covered\b | \bstrict["']?\s*[:=]\s*["']?[Ff]alse | \bpytest_collection_modifyitems\b
    | \bpytest_ignore_collect\b | ^\s*-\s*\S*(?:test|pytest)\S*\s*-\s*skip
    """,
    re.VERBOSE,
)
_CHECK_COMMAND = re.compile(
    r"""\b(?:pytest|unittest|tox|nox|ruff|mypy|flake8|pylint|jest|vitest|mocha|eslint|tsc
        |go\s+(?:test|vet)|cargo\s+test|mvn\s+\S*(?:test|verify)|gradlew?\s+\S*(?:test|check)
        |(?:npm|yarn|pnpm)\s+(?:run\s+)?(?:test|lint)|make\s+(?:test|check|lint))\b""",
    re.VERBOSE,
)
_THRESHOLD = re.compile(
    r"\b(fail[_-]under|branches|functions|lines|statements|minimum)[\"']?\s*[:=]\s*[\"']?(\d+(?:\.\d+)?)"
)
_ASKED = re.compile(
    r"\b(?:remov|delet|drop|skip|disabl|replac|rewrit|renam|merg|mov|xfail)\w*\b[^.\n]{0,80}"
    r"\b(?:tests?|specs?|assertions?|test ?cases?)\b",
    re.IGNORECASE,
)


def is_test(path: str) -> bool:
    return matches(path, TEST_PATHS)


def is_check_setting(path: str) -> bool:
    return matches(path, CHECK_SETTINGS)


def tests_weakened(changes: Sequence[FileChange], *, instruction: str) -> list[str]:
    """Tests deleted, skipped or with fewer assertions, unless the instruction asks for it."""
    if _ASKED.search(instruction):
        return []
    touched = [change for change in changes if any(is_test(path) for path in change.paths)]
    arrived = {name for change in touched for name in _tests_in(change.added)}
    findings = []
    for change in touched:
        findings += _of_test_file(change, arrived)
    findings += _assertions_lost(touched)
    return findings


def settings_weakened(changes: Sequence[FileChange], *, instruction: str) -> list[str]:
    """Verifier or CI settings removed or loosened, unless the instruction names the file."""
    findings = []
    for change in changes:
        name = change.path.rsplit("/", 1)[-1]
        if is_check_setting(change.path) and name.lower() not in instruction.lower():
            findings += _of_setting(change)
    return findings


def _of_test_file(change: FileChange, arrived: set[str]) -> list[str]:
    if change.deleted:
        moved = _tests_in(change.removed)
        if moved and moved <= arrived:
            return []
        return [f"the test file {change.old} is deleted"]
    findings = []
    if change.old and not is_test(change.path):
        findings.append(f"the test file {change.old} is moved to where tests are not looked for")
    gone = sorted(_tests_in(change.removed) - arrived)
    if gone and len(_tests_in(change.added)) < len(_tests_in(change.removed)):
        findings.append(f"{change.path} loses the test {gone[0]}" + _more(gone))
    skips = _count(_SKIP, change.added) - _count(_SKIP, change.removed)
    if skips > 0:
        line = next(line for line in change.added if _SKIP.search(line))
        findings.append(f"{change.path} skips tests: {line.strip()[:80]}")
    if _commented_out(change):
        findings.append(f"{change.path} has a test commented out")
    return findings


def _assertions_lost(touched: Sequence[FileChange]) -> list[str]:
    """Per file, unless they moved to another test file."""
    balances = {
        change.path: _assertions(change.added) - _assertions(change.removed)
        for change in touched
        if not change.deleted
    }
    gained = sum(balance for balance in balances.values() if balance > 0)
    lost = -sum(balance for balance in balances.values() if balance < 0)
    if lost <= gained:
        return []
    return [
        f"{path} loses {-balance} assertion{'s' if balance < -1 else ''}"
        for path, balance in balances.items()
        if balance < 0
    ]


def _of_setting(change: FileChange) -> list[str]:
    if change.deleted:
        kept = matches(change.path, _MAY_BE_DELETED)
        return [] if kept else [f"the check settings {change.old} are deleted"]
    findings = []
    if _count(_WEAKER_SETTING, change.added) > _count(_WEAKER_SETTING, change.removed):
        line = next(line for line in change.added if _WEAKER_SETTING.search(line))
        findings.append(f"{change.path} loosens a check: {line.strip()[:80]}")
    if _count(_CHECK_COMMAND, change.removed) > _count(_CHECK_COMMAND, change.added):
        line = next(line for line in change.removed if _CHECK_COMMAND.search(line))
        findings.append(f"{change.path} no longer runs: {line.strip()[:80]}")
    before, after = _thresholds(change.removed), _thresholds(change.added)
    for name, value in before.items():
        if after.get(name, value) < value:
            findings.append(f"{change.path} lowers {name} from {value:g} to {after[name]:g}")
    return findings


def _tests_in(lines: Sequence[str]) -> set[str]:
    found = (_TEST.match(line) for line in lines)
    return {next(filter(None, match.groups())) for match in found if match}


def _assertions(lines: Sequence[str]) -> int:
    return sum(
        1
        for line in lines
        if _ASSERTION.search(line)
        and not _EMPTY_ASSERTION.search(line)
        and not line.lstrip().startswith(("#", "//", "*"))
    )


def _commented_out(change: FileChange) -> bool:
    uncovered = {line.strip() for line in change.removed}
    return any(
        (bare := line.strip().lstrip("#/ ")) in uncovered and _TEST.match(bare)
        for line in change.added
        if line.lstrip().startswith(("#", "//"))
    )


def _thresholds(lines: Sequence[str]) -> dict[str, float]:
    return {match.group(1): float(match.group(2)) for line in lines for match in _THRESHOLD.finditer(line)}


def _count(pattern: re.Pattern[str], lines: Sequence[str]) -> int:
    return sum(1 for line in lines if pattern.search(line))


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
