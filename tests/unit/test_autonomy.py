"""Which threshold follows from verdicts: known error rates lead to the expected proposals, few to none."""

from __future__ import annotations

import pytest

from runs.domain.autonomy import LEAST, Proposal, Rate, propose


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [  # values of the closed form, to four places
        (0, 30, 0.0, 0.1135),
        (5, 50, 0.0435, 0.2136),
        (50, 100, 0.4038, 0.5962),
        (30, 30, 0.8865, 1.0),
        (1, 1, 0.2065, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_is_wilsons(count, total, low, high):
    assert Rate(count, total).interval == pytest.approx((low, high), abs=5e-5)


def history(*bands: tuple[int, int, int]) -> dict[int, Rate]:
    """(hundredths of confidence, wrong, total) of each."""
    return {sure: Rate(wrong, total) for sure, wrong, total in bands}


@pytest.mark.parametrize(
    ("bands", "threshold", "expected"),
    [
        # Of what goes out by itself 20 % are wrong, and above 0.9 hardly any: raised to the first that does.
        ([(82, 30, 100), (90, 2, 60), (95, 1, 60)], 0.8, Proposal(0.83, Rate(3, 120), raises=True)),
        # Wrong all the way up: no threshold helps.
        ([(85, 30, 100), (95, 30, 100)], 0.8, Proposal(1.0, Rate(60, 200), raises=True)),
        # Enough good verdicts below: lowered as far as they reach.
        ([(78, 1, 60), (72, 1, 60), (90, 0, 40)], 0.8, Proposal(0.7, Rate(2, 120), raises=False)),
        # A bad step ends the way down, however many good ones stand above it.
        ([(77, 0, 200), (72, 5, 10), (67, 0, 200), (90, 0, 40)], 0.8, Proposal(0.75, Rate(0, 200), False)),
        # What is tolerated is what is seen: nothing is certain.
        ([(85, 10, 100), (75, 10, 100)], 0.8, None),
        # Good above, too few below.
        ([(90, 0, 400), (75, 0, 29)], 0.8, None),
        # Never below a half, and never a step that holds no verdict.
        ([(55, 0, 100), (40, 0, 500), (90, 0, 40)], 0.8, Proposal(0.55, Rate(0, 100), raises=False)),
        # What goes out now is not borne out, though not with certainty: nothing more is let out.
        ([(85, 5, 40), (75, 0, 400)], 0.8, None),
        # The highest threshold there is.
        ([(100, 30, 60)], 1.0, None),
    ],
)
def test_known_error_rates_lead_to_the_expected_proposal(bands, threshold, expected):
    assert propose(history(*bands), threshold=threshold, tolerated=0.1) == expected


@pytest.mark.parametrize("wrong", [0, LEAST - 1])
def test_below_thirty_verdicts_nothing_is_proposed(wrong):
    few = history((75, 0, 10), (85, min(wrong, 19), 19))
    assert sum(rate.total for rate in few.values()) == LEAST - 1
    assert propose(few, threshold=0.8, tolerated=0.1) is None
    enough = history((85, 15, LEAST))
    assert propose(enough, threshold=0.8, tolerated=0.1) == Proposal(1.0, Rate(15, LEAST), raises=True)


def test_what_is_tolerated_decides():
    bands = history((85, 8, 100), (75, 0, 60))
    assert propose(bands, threshold=0.8, tolerated=0.01) == Proposal(1.0, Rate(8, 100), raises=True)
    assert propose(bands, threshold=0.8, tolerated=0.1) == Proposal(0.75, Rate(0, 60), raises=False)


def test_a_threshold_between_two_hundredths_lets_out_only_what_is_surely_above_it():
    assert propose(history((85, 30, 60)), threshold=0.855, tolerated=0.1) is None
    assert propose(history((86, 30, 60)), threshold=0.855, tolerated=0.1) is not None
