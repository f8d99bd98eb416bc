"""What a soak calls level: growth, bloat, a stuck outbox and idle transactions are found in its samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.soak.samples import Sample, verdicts

LEVEL = [
    Sample(at=float(n), web=100, background=90, workers=80, database=50, dead=100, live=1_000, size=40,
           events=10 * n, waiting=3, idle=0)
    for n in range(40)
]  # fmt: skip


def changed(**values: Any) -> list[Sample]:
    """The samples with other fields; a function is of the time."""

    def at(seconds: float) -> dict[str, Any]:
        return {name: value(seconds) if callable(value) else value for name, value in values.items()}

    return [replace(sample, **at(sample.at)) for sample in LEVEL]


def test_what_is_level_passes():
    assert verdicts(LEVEL) == []


def test_growth_in_the_warm_up_is_none():
    assert verdicts(changed(web=lambda at: min(60 + at * 5, 100))) == []


def test_a_single_peak_is_no_growth():
    assert verdicts(changed(web=lambda at: 400 if at == 39 else 100)) == []


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"web": lambda at: 100 + at}, "memory of web"),
        ({"workers": lambda at: 100 * 1.01**at}, "memory of workers"),
        ({"idle": lambda at: int(at == 7)}, "idled"),
        ({"waiting": lambda at: int(at * 20)}, "outbox"),
        ({"dead": lambda at: int(at * 1_000)}, "dead rows"),
        ({"events": 5}, "no load"),
    ],
)
def test_what_grows_or_hangs_is_named(values, word):
    (found,) = verdicts(changed(**values))
    assert word in found
