"""Words: each has a label, none is spelled twice, the final statuses are the four."""

from __future__ import annotations

import pytest

from runs.domain import vocabulary as v
from runs.domain.vocabulary import DIRECTIVE_RANK, TERMINAL, Directive, Risk, RunStatus, Word


@pytest.mark.parametrize("words", Word.__subclasses__(), ids=lambda words: words.__name__)
def test_every_word_has_a_label_of_its_own(words: type[Word]):
    labels = [word.label for word in words]
    assert all(labels)
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("words", [v.RunStatus, v.TaskStatus, v.Role, v.Gate, v.PersonRole])
def test_what_people_meet_is_explained_in_a_sentence(words: type[Word]):
    assert [word for word in words if not word.sentence.endswith((".", "?"))] == []


def test_there_are_seventeen_statuses_four_of_them_final():
    assert len(RunStatus) == 17
    assert [s.value for s in RunStatus if s.is_terminal] == ["SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"]
    assert all(s.is_terminal == (s in TERMINAL) for s in RunStatus)


def test_cancel_beats_wind_down_beats_pause():
    order = [Directive.CONTINUE, Directive.PAUSE, Directive.WIND_DOWN, Directive.CANCEL]
    assert sorted(Directive, key=DIRECTIVE_RANK.__getitem__) == order


def test_risks_are_ranked():
    assert [risk.rank for risk in Risk] == [0, 1, 2, 3]
