"""Each value of a policy in force names the levels that it comes from, and those that it overrules."""

from __future__ import annotations

from runs.domain.origins import Origin, origins_of, sentence_of
from runs.domain.policy import DEFAULTS, Level, effective

PLATFORM = Level("platform", 3, {"judge_confidence": 0.7, "forbidden_paths": ["infra/**"]}, "inherited")
STRICT = Level(
    "strict",
    1,
    {"judge_confidence": 0.9, "forbidden_paths": ["keys/**"], "budget": {"max_runs": 5}, "lease_seconds": 90},
    "pattern",
    "acme/pay-*",
)
OWN = Level(
    "repository/acme/pay-in",
    2,
    {"judge_confidence": 0.8, "budget": {"max_runs": 2}, "timeouts": {"queue": 60}, "lease_seconds": 60},
)


def found(*levels: Level) -> dict[tuple[str, str], Origin]:
    return {(one.name, one.entry): one for one in origins_of(effective(levels))}


def test_the_strictest_gives_the_value_and_the_laxer_are_said_to_be_overruled():
    one = found(PLATFORM, STRICT, OWN)["judge_confidence", ""]
    assert (one.value, one.given_by) == (0.9, [STRICT])
    assert one.overruled == [(PLATFORM, 0.7), (OWN, 0.8)]


def test_a_list_comes_from_every_level_that_adds_to_it():
    one = found(PLATFORM, STRICT, OWN)["forbidden_paths", ""]
    assert (one.value, one.given_by, one.overruled) == (["infra/**", "keys/**"], [PLATFORM, STRICT], [])


def test_a_default_is_given_by_the_nearest_alone():
    at = found(PLATFORM, STRICT, OWN)
    for place, near, far in ((("budget", "max_runs"), 2, 5), (("lease_seconds", ""), 60, 90)):
        assert (at[place].value, at[place].given_by, at[place].overruled) == (near, [OWN], [(STRICT, far)])


def test_of_a_field_with_entries_each_has_an_origin_of_its_own():
    at = found(PLATFORM, STRICT, OWN)
    assert at["timeouts", "queue"].given_by == [OWN]
    assert (at["timeouts", "approval"].value, at["timeouts", "approval"].given_by) == (259_200, [])


def test_without_levels_every_value_is_built_in():
    assert {one.name for one in origins_of(effective(()))} == set(DEFAULTS)
    assert not [one for one in origins_of(effective(())) if one.given_by]


def test_a_level_says_in_words_how_it_came_to_hold():
    said = [sentence_of(level) for level in (PLATFORM, STRICT, OWN)]
    assert said == [
        "platform (inherited)", "strict (pattern acme/pay-*)", "repository/acme/pay-in (its own)",
    ]  # fmt: skip
