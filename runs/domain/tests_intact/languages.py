"""How tests, skips and assertions look, language by language: data for the reading."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """`scope` finds the start of any function with its `name`, `test` says which are tests.

    `collected` are paths whose tests a runner finds, `near` also their helpers. `marker`
    is a line whose loss takes a test out without touching its name.
    """

    name: str
    collected: re.Pattern[str]
    near: re.Pattern[str]
    scope: re.Pattern[str]
    test: re.Pattern[str]
    skip: re.Pattern[str]
    assertion: re.Pattern[str]
    comment: tuple[str, ...]
    marker: re.Pattern[str] | None = None


# Assertions that hold whatever the code does count for nothing.
TRIVIAL = re.compile(
    r"assert\s*\(?\s*(True|1|not False)\s*\)?\s*(,|#|;|$)|assert(True|_)?\(\s*[Tt]rue\s*\)"
    r"|assertFalse\(\s*[Ff]alse\s*\)|expect\(\s*(true|1)\s*\)\.(to\.be\.true|toBe(Truthy)?\((true|1)?\))"
    r"|assert(\.ok)?\(\s*true\s*\)|expect\(true\)\.to\s+(be|eq)"
)

_PYTHON = Language(
    name="python",
    collected=re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests?)\.py$"),
    near=re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests?|conftest)\.py$|(^|/)tests?/.*\.py$"),
    scope=re.compile(r"\s*(?:(?:async\s+)?def|class)\s+(?P<name>\w+)"),
    test=re.compile(r"test|Test"),
    skip=re.compile(
        r"pytest\.mark\.(skip|skipif|xfail)\b|pytest\.(skip|xfail|importorskip)\("
        r"|\b(unittest\.)?(skip|skipIf|skipUnless|expectedFailure)\b(?=\s*(\(|$))|\.skipTest\("
        r"|raise\s+(unittest\.)?SkipTest|__test__\s*=\s*False|^\s*if\s+(False|0)\s*:"
    ),
    assertion=re.compile(
        r"^\s*assert\b|\.assert\w+\(|\bpytest\.(raises|warns|fail)\(|\bself\.fail\("
        r"|\bassert_\w+\(|^\s*with\s+(\w+\.)*raises\("
    ),
    comment=("#",),
)
_SCRIPT = Language(
    name="javascript",
    collected=re.compile(r"(^|/)__tests__/.*\.[cm]?[jt]sx?$|\.(test|spec)\.[cm]?[jt]sx?$"),
    near=re.compile(r"(^|/)(__tests__|tests?|e2e)/.*\.[cm]?[jt]sx?$|\.(test|spec)\.[cm]?[jt]sx?$"),
    scope=re.compile(
        r"\s*[xf]?(?:it|test|describe|context|suite|specify)(?:\.\w+)*(?:\([^)]*\)|`[^`]*`)?"
        r"\s*\(\s*(?P<quote>['\"`])(?P<name>.+?)(?P=quote)"
    ),
    test=re.compile(r""),
    skip=re.compile(
        r"\b(it|test|describe|context|suite|specify)(\.\w+)*\.(skip|todo|failing|fixme|only)\b"
        r"|\b[xf](it|describe|context|specify|test)\s*\(|\bthis\.skip\(\)|\btest\.(skip|fixme)\("
    ),
    assertion=re.compile(r"\bexpect(\.\w+)?\(|\bassert(\.\w+)*\(|\.should\b|\bt\.(is|true|deepEqual)\("),
    comment=("//", "*", "/*"),
)
_GO = Language(
    name="go",
    collected=re.compile(r"_test\.go$"),
    near=re.compile(r"_test\.go$"),
    scope=re.compile(r"func\s+(?:\([^)]*\)\s*)?(?P<name>\w+)"),
    test=re.compile(r"(Test|Benchmark|Fuzz|Example)"),
    skip=re.compile(r"\b\w+\.Skip(Now|f)?\(|^//go:build\s+(ignore|never)"),
    assertion=re.compile(
        r"\b\w+\.(Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(assert|require|is|qt)\.\w+\("
    ),
    comment=("//",),
)
_JAVA = Language(
    name="java",
    collected=re.compile(r"(^|/)[^/]*(Tests?|IT|Spec)\.(java|kt)$|(^|/)Test[^/]*\.(java|kt)$"),
    near=re.compile(r"(^|/)src/test/.*\.(java|kt)$|(Tests?|IT|Spec)\.(java|kt)$"),
    scope=re.compile(
        r"\s*(?:(?:public|protected|private|static|final|internal|override)\s+)*(?:void|fun)\s+"
        r"(?P<name>\w+|`[^`]+`)\s*\("
    ),
    test=re.compile(r"(?!(setUp|tearDown|before|after|init)\w*$)"),
    skip=re.compile(r"@(Disabled|Ignore)\w*\b|\bAssum(e|ptions)\.\w+|\bassume(True|False|That)\("),
    assertion=re.compile(r"\bassert\w*\(|\bassert\s|\bverify\(|\bfail\(|\bexpect\w*\("),
    comment=("//", "*", "/*"),
    marker=re.compile(r"\s*@(Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b"),
)
_RUBY = Language(
    name="ruby",
    collected=re.compile(r"_(spec|test)\.rb$|(^|/)test_[^/]*\.rb$"),
    near=re.compile(r"(^|/)(spec|test)/.*\.rb$|_(spec|test)\.rb$"),
    scope=re.compile(
        r"\s*(?:[xf]?(?:it|specify|scenario|describe|context|test)\s*\(?\s*(?P<quote>['\"])"
        r"(?P<name>.+?)(?P=quote)|def\s+(?P<method>test_\w+))"
    ),
    test=re.compile(r""),
    skip=re.compile(
        r"^\s*x(it|specify|scenario|describe|context)\b|^\s*(skip|pending)\b|\bskip:\s|\bpending:\s"
    ),
    assertion=re.compile(r"\bexpect\b|\bassert\w*\b|\brefute\w*\b|\.should\b|\bmust_\w+"),
    comment=("#",),
)

LANGUAGES = (_PYTHON, _SCRIPT, _GO, _JAVA, _RUBY)


def language_of(path: str, *, collected: bool = False) -> Language | None:
    """The language whose tests, or with `collected=False` also test helpers, live here."""
    for language in LANGUAGES:
        if (language.collected if collected else language.near).search(path):
            return language
    return None
