"""CODEOWNERS means here what it means at the forge."""

import time

import pytest

from approvals.codeowners import parse, places

GITHUB = """\
# The examples of GitHub's own documentation, in its order.
*       @global-owner1 @global-owner2
*.js    @js-owner #This is an inline comment.
*.go docs@example.com
*.txt @octo-org/octocats
/build/logs/ @doctocat
docs/*  docs@example.com
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @logger
/apps/ @octocat
/apps/github
"""


def owners(text: str, *paths: str, provider: str = "github") -> list[str]:
    return [owned.handle for owned in parse(text, provider=provider).owners_of(paths)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.rb", ["@global-owner1", "@global-owner2"]),
        ("src/deep/a.js", ["@js-owner"]),
        ("a.go", ["docs@example.com"]),
        ("b/a.txt", ["@octo-org/octocats"]),
        ("build/logs/x/y", ["@logger"]),
        ("docs/getting-started.md", ["@doctocat"]),
        ("sub/apps/x.c", ["@octocat"]),
        ("scripts/x", ["@doctocat", "@octocat"]),
        ("deeply/nested/logs/a", ["@logger"]),
        ("apps/github", []),
        ("apps/github/deep/file", []),
        ("apps/other", ["@octocat"]),
    ],
)
def test_the_last_pattern_that_matches_decides(path, expected):
    assert owners(GITHUB, path) == expected


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("docs/*", "docs/a.md", True),
        ("docs/*", "docs/build-app/a.md", False),
        ("/*", "a", True),
        ("/*", "a/b", False),
        ("*", "a/b", True),
        ("docs/", "docs", False),
        ("/docs", "docs/a/b", True),
        ("/docs", "x/docs/a", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**", "a/x/y", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("A.md", "a.md", False),
        ("a.md", "aXmd", False),
        ("*.py", "x.pyc", False),
    ],
)
def test_patterns_are_those_of_gitignore_with_the_documented_exceptions(pattern, path, matches):
    assert bool(owners(f"{pattern} @ann", path)) is matches


@pytest.mark.parametrize("line", ["!a @ann", "a[bc] @ann", "\\#a @ann", "/ @ann", "[Section] @ann"])
def test_a_line_that_github_refuses_is_skipped_and_the_rest_holds(line):
    assert owners(f"* @all\n{line}\n", "a", "ab", "#a") == ["@all"]


def test_words_that_are_no_owners_name_nobody():
    assert owners("* this @ann does@not match@example.org @", "x") == ["@ann", "match@example.org"]


GITLAB = """\
* @default
[Documentation][2] @docs-team
docs/
README.md @readme
^[Database] @dba
model/db/
!model/db/generated/
[documentation]
docs/internal/ @writers
path\\ with\\ spaces/ @space
\\#pound @pound
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("x", ["@default"]),
        ("docs/a", ["@default", "@docs-team"]),
        ("README.md", ["@default", "@readme"]),
        ("model/db/a", ["@default", "@dba"]),
        ("model/db/generated/a", ["@default"]),
        ("docs/internal/a", ["@default", "@writers"]),
        ("path with spaces/a", ["@default", "@space"]),
        ("#pound", ["@default", "@pound"]),
    ],
)
def test_each_section_of_gitlab_counts_for_itself(path, expected):
    assert owners(GITLAB, path, provider="gitlab") == expected


def test_owners_come_with_the_patterns_that_named_them():
    found = parse("*.py @ann\n/docs/ @bob @ann\n").owners_of(["a.py", "docs/x", "b.py"])
    assert [(owned.handle, owned.patterns) for owned in found] == [
        ("@ann", ("*.py", "/docs/")),
        ("@bob", ("/docs/",)),
    ]


def test_the_first_place_of_the_forge_is_read_and_gitea_has_another_syntax():
    assert places("github")[0] == ".github/CODEOWNERS"
    assert places("gitlab")[0] == "CODEOWNERS"
    assert places("gitea") == ()


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "**/a/" * 4 + "b", "**/" * 200, "*" * 900 + "b"])
def test_no_pattern_makes_matching_slow(pattern):
    started = time.perf_counter()
    assert owners(f"{pattern} @ann", "a" * 200, "a/" * 100 + "c") in ([], ["@ann"])
    assert time.perf_counter() - started < 1
