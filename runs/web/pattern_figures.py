"""Samples of charts and of a step's output, for the patterns page."""

from __future__ import annotations

from typing import Any

from runs.domain.vocabulary import StepState
from runs.selectors.charts import Bar, Column, bars, columns
from runs.selectors.logs import shown_text

Sample = dict[str, Any]
#: Two days without a run among them, and one on which all failed.
_DAYS = ((12, 2, 0), (9, 0, 1), (0, 0, 0), (0, 6, 0), (15, 3, 2), (0, 0, 0), (4, 1, 0))

CHART: Sample = columns(
    [
        Column(
            f"{number} July: {ok} completed, {bad} failed, {quiet} cancelled",
            f"{number} July",
            "#",
            [("ok", ok), ("bad", bad), ("quiet", quiet)],
        )
        for number, (ok, bad, quiet) in enumerate(_DAYS, start=1)
    ]
) | {"title": "Runs that ended, by day"}
BARS: list[Sample] = bars(
    [
        Bar("Checks failed", 41, "41", "#", tone="bad"),
        Bar("In the queue", 12, "12 min", "#", "p95 2 h", "busy"),
        Bar(
            "A repository whose name is as long as such names are",
            7,
            "$7.20",
            "#",
            "9 runs",
        ),
        Bar("None", 0, "0", "#"),
    ]
)


def log(state: StepState, note: str, *lines: str, **more: Any) -> Sample:
    """One log as its page takes it."""
    shown = [{"offset": f"{state}-{number}", "html": shown_text(line)} for number, line in enumerate(lines)]
    return {"state": state.label, "note": note, "lines": shown, "download": "#", **more}


LOGS: list[Sample] = [
    log(StepState.RUNNING, "2 lines of 310 B", "$ pytest -q", "\x1b[32m....\x1b[0m", live=True),
    log(
        StepState.FAILED,
        "3 lines of 20 MiB; 19 MiB before them are not shown",
        "\x1b[1;31mE   NameError\x1b[0m: name 'timezone' is not defined",
        "rm -rf build\rall passed \u202e gnirts",
        "<img src=x onerror=alert(1)>",
        earlier="#",
        newest="#",
    ),
    log(StepState.SUCCEEDED, "1 line with “warn”, of 4.2 KiB", "warning: unused import", query="warn"),
    log(StepState.SUCCEEDED, "0 lines with “panic”, of 4.2 KiB", query="panic"),
    log(StepState.PENDING, "Nothing was written yet"),
]
