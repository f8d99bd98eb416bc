"""Writes what a run of the proofs showed, for people: outcome, seed, figures, and histories of failures.

python -m pytest -p tests.report --report FILE -m long
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import pytest

_REPORTS: dict[str, pytest.TestReport] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report", type=Path, required=True, help="the file to write")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The call says how it went, unless what came before or after it failed."""
    if report.when == "call" or report.failed:
        _REPORTS[report.nodeid] = report


def pytest_sessionfinish(session: pytest.Session) -> None:
    path: Path = session.config.getoption("--report")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(list(_REPORTS.values())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(f"The report is in {config.getoption('--report')}")


def written(reports: list[pytest.TestReport]) -> str:
    """The whole report as Markdown."""
    failed = [report for report in reports if report.failed]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# Report of the long proofs",
        "",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC. {machine}.",
        f"{len(reports) - len(failed)} of {len(reports)} held.",
        "",
        "| proof | outcome | seconds | figures |",
        "| --- | --- | --- | --- |",
        *map(_row, reports),
    ]
    for report in failed:
        lines += ["", f"## {report.nodeid}", "", "```", report.longreprtext, "```"]
    return "\n".join(lines) + "\n"


def _row(report: pytest.TestReport) -> str:
    figures = "; ".join(f"{name}: {value}" for name, value in report.user_properties)
    cells = (report.nodeid, report.outcome, f"{report.duration:.0f}", figures)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
