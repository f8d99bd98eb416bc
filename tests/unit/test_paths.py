"""Lists of paths hold against every spelling, and against no other file."""

from __future__ import annotations

import pytest

from runs.domain.patch import read_patch
from runs.domain.paths import first_match, matches, path_problem, pattern_problem
from tests.unit.patch_cases_guard import GUARD_CASES

FORBIDDEN = [".github/**", "infra/prod.tf", "**/*.pem", "docs/café/*"]


@pytest.mark.parametrize("name", ["caseguard", "dbl_slash", "other_prefix", "quoted_guard"])
def test_forged_spellings_of_a_forbidden_folder_are_caught(name):
    (file,) = read_patch(GUARD_CASES[name].patch)
    assert first_match(FORBIDDEN, file.names) == (file.path, ".github/**")


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (".GITHUB/workflows/x.yml", ".github/**"),
        (".github./workflows/x.yml", ".github/**"),
        (".github /x", ".github/**"),
        (".github\\workflows\\x.yml", ".github/**"),
        (".git\u200chub/x", ".github/**"),
        (".github", ".github/**"),
        ("infra//prod.tf", "infra/prod.tf"),
        ("Infra/PROD.TF", "infra/prod.tf"),
        ("deep/down/Key.PEM", "**/*.pem"),
        ("key.pem.", "**/*.pem"),
        ("docs/cafe\u0301/menu.md", "docs/café/*"),
    ],
)
def test_other_spellings_of_the_same_file_are_forbidden(path, pattern):
    assert matches(FORBIDDEN, path) == pattern


@pytest.mark.parametrize(
    "path",
    [".gitignore", "docs/github/x", "x/.github/y", "a/infra/prod.tf", "pem", "infra/prod.tfx"],
)
def test_neighbours_are_not_forbidden(path):
    assert matches(FORBIDDEN, path) is None


def test_what_is_allowed_is_compared_exactly():
    assert matches(["src/**/*.py"], "src/a/b.py", fold=False) == "src/**/*.py"
    assert matches(["src/**/*.py"], "SRC/a/b.py", fold=False) is None
    assert matches(["src/**"], "src.", fold=False) is None
    assert matches(["src/**"], "src\\..\\x", fold=False) is None


def test_accents_compare_in_either_form():
    assert matches(["na\u00efve.py"], "nai\u0308ve.py", fold=False) == "na\u00efve.py"


def test_the_last_pattern_wins_as_in_gitignore():
    patterns = ["*.lock", "!poetry.lock"]
    assert matches(patterns, "yarn.lock") == "*.lock"
    assert matches(patterns, "poetry.lock") is None
    assert matches([], "anything") is None


def test_a_path_that_is_not_utf8_still_compares():
    assert matches(["secret/**"], "secret/caf\udce9") == "secret/**"


@pytest.mark.parametrize("pattern", ["", "  ", "# note", "!", "a\\b", "../x", "x\\"])
def test_patterns_that_would_match_nothing_are_refused(pattern):
    assert pattern_problem(pattern)


@pytest.mark.parametrize("pattern", [*FORBIDDEN, "!keep.me", "a b/*", "docs"])
def test_usable_patterns_are_taken(pattern):
    assert pattern_problem(pattern) is None


@pytest.mark.parametrize("path", ["a/.git/b", ".GIT", "GIT~1/x", "..", "a//b", "/a", "a:b", ""])
def test_unsafe_paths_say_why(path):
    assert path_problem(path)
