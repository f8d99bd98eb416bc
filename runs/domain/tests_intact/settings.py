"""Changes to what the verifiers run: runner settings, CI, scripts and make targets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runs.domain.patch.model import Hunk, Line, PatchFile


@dataclass(frozen=True, slots=True)
class _Setting:
    """`path` of the file; a changed line counts when its `section` or the line itself does.

    Without both, every change of the file counts. `heading` finds a section's name.
    """

    path: re.Pattern[str]
    what: str
    line: re.Pattern[str] | None = None
    heading: re.Pattern[str] | None = None
    section: re.Pattern[str] | None = None
    only_existing: bool = False


_TEST_WORD = r"tests?|check|lint|typecheck|type-check|verify|ci|coverage|spec|e2e"
_RUNNER_KEY = re.compile(
    r"\s*[\"']?(addopts|testpaths|norecursedirs|python_(files|classes|functions)|filterwarnings"
    r"|xfail_strict|fail_under|omit|exclude_lines|exclude_also|collect_ignore\w*|required_plugins"
    r"|usefixtures|junit_family|timeout_method)\b|.*--(ignore|deselect|no-cov)\b"
)
_INI_HEADING = re.compile(r"\s*\[+(?P<name>[^\]]+)\]")

_SETTINGS = (
    _Setting(
        re.compile(r"(^|/)(pyproject\.toml|setup\.cfg)$"),
        "test runner settings",
        line=_RUNNER_KEY,
        heading=_INI_HEADING,
        section=re.compile(r"(tool[.:])?(pytest|coverage|tox|nox|mypy|ruff|flake8|pyright|testenv)"),
    ),
    _Setting(
        re.compile(
            r"(^|/)(pytest\.ini|\.pytest\.ini|tox\.ini|noxfile\.py|\.coveragerc|mypy\.ini|\.flake8"
            r"|\.?ruff\.toml|pyrightconfig\.json|phpunit\.xml(\.dist)?|\.rspec|\.golangci\.ya?ml"
            r"|(jest|vitest|karma|playwright|cypress|ava|wdio)\.conf(ig)?\.[\w.]+|\.mocharc[\w.]*"
            r"|\.eslintrc[\w.]*|eslint\.config\.\w+|\.eslintignore|tsconfig[\w.]*\.json)$"
        ),
        "test runner or checker settings",
    ),
    _Setting(
        re.compile(r"(^|/)conftest\.py$"),
        "what pytest collects or reports",
        line=re.compile(
            r".*\b(collect_ignore\w*|pytest_(collection\w*|ignore_collect|collect_file"
            r"|runtest_\w+|sessionfinish|terminal_summary|report\w*|exception_interact)|deselect)\b"
        ),
    ),
    _Setting(
        re.compile(
            r"^\.(github|gitea|forgejo)/(workflows|actions)/|(^|/)\.gitlab-ci\.ya?ml$|^\.circleci/"
            r"|(^|/)(azure-pipelines|bitbucket-pipelines|appveyor|\.travis|\.drone)\.ya?ml$"
            r"|(^|/)Jenkinsfile$|^\.(buildkite|woodpecker)/|^\.ci/"
        ),
        "what the continuous integration runs",
        only_existing=True,
    ),
    _Setting(
        re.compile(r"(^|/)package\.json$"),
        "test scripts",
        line=re.compile(rf"\s*\"((pre|post)?({_TEST_WORD})(:[\w:-]+)?|jest|mocha|vitest|nyc|ava)\"\s*:"),
    ),
    _Setting(
        re.compile(r"(^|/)(GNUmakefile|[Mm]akefile|[Jj]ustfile|Rakefile|[Tt]askfile\.ya?ml)$"),
        "the test target",
        line=re.compile(rf"(task\s+:?)?\s*([\w-]*[-_])?({_TEST_WORD})([-_][\w-]*)?\s*:(?!=)"),
        heading=re.compile(r"\s*(?P<name>[\w.-]+)\s*:(?!=)"),
        section=re.compile(rf"([\w-]*[-_])?({_TEST_WORD})([-_][\w-]*)?$"),
    ),
    _Setting(
        re.compile(r"(^|/)(pom\.xml|build\.gradle(\.kts)?)$"),
        "test settings of the build",
        line=re.compile(
            r".*(skipTests|maven\.test\.skip|surefire|failsafe|testFailureIgnore|useJUnitPlatform"
            r"|excludeTestsMatching|ignoreFailures|onlyIf|tasks\.(named\()?.?test|^\s*test\s*\{)"
        ),
    ),
)


def setting_change(file: PatchFile) -> tuple[str, int, str] | None:
    """(path, line, what it sets) of the first change to a verifier's settings, or None."""
    for path in file.names:
        for setting in _SETTINGS:
            if not setting.path.search(path):
                continue
            if setting.only_existing and file.status in ("added", "copied"):
                continue
            if (line := _changed_line(file, setting)) is not None:
                return path, line, setting.what
    return None


def _changed_line(file: PatchFile, setting: _Setting) -> int | None:
    whole = setting.line is None and setting.section is None
    if whole or file.status in ("deleted", "renamed", "type_changed"):
        first = next((ln for hunk in file.hunks for ln in hunk.lines if ln.kind != "context"), None)
        return first.number if first else 0
    for hunk in file.hunks:
        found = _in_hunk(hunk, setting)
        if found is not None:
            return found.number
    return None


def _in_hunk(hunk: Hunk, setting: _Setting) -> Line | None:
    section = _heading(hunk.header, setting)
    for line in hunk.lines:
        section = _heading(line.text, setting) or section
        if line.kind == "context" or not line.text.strip():
            continue
        if setting.line and setting.line.match(line.text):
            return line
        if section and setting.section and setting.section.match(section):
            return line
    return None


def _heading(text: str, setting: _Setting) -> str | None:
    found = setting.heading.match(text) if setting.heading else None
    return found["name"] if found else None
