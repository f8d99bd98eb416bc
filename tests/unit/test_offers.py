"""What a run needs and workers offer."""

from __future__ import annotations

import pytest

from runs.domain.offers import Asker, Needs, lacking
from runs.domain.vocabulary import Role

NEEDS = Needs(frozenset({"gpu", "python"}), "container")


def asker(*labels: str, isolation: str = "container") -> Asker:
    return Asker(frozenset({"worker"}), frozenset(), "", frozenset(labels), isolation)


@pytest.mark.parametrize(
    ("askers", "says"),
    [
        ([], ""),
        ([asker("gpu", "python", "more")], ""),
        ([asker("python"), asker("python", "x")], "No worker offers gpu: start one with --label gpu"),
        ([asker()], "No worker offers gpu, python: start one with --label gpu --label python"),
        ([asker("gpu", "python", isolation="process")], "offers isolation container, as the policy's"),
        ([asker("gpu", "python", isolation="")], "the best there is offers none"),
        ([asker("gpu"), asker("python")], "No single worker offers all of gpu, python, isolation container"),
        (
            [asker("gpu", "python", isolation="none"), asker("gpu", isolation="vm")],
            "No single worker offers all of gpu, python, isolation container",
        ),
    ],
)
def test_what_lacks_is_named_and_how_to_have_it(askers, says):
    found = lacking(askers, NEEDS)
    assert (says in found) if says else found == ""


def test_the_git_integration_needs_nothing():
    assert asker(isolation="none").offers(Role.GIT_INTEGRATION, NEEDS)


def test_an_account_limited_to_repositories_is_for_those_alone():
    limited = Asker(frozenset({"worker"}), frozenset({"repo_1"}), "")
    assert limited.is_for(Role.WORKER, "repo_1")
    assert not limited.is_for(Role.WORKER, "repo_2")
    assert not limited.is_for(Role.JUDGE, "repo_1")
