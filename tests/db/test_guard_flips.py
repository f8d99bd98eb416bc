"""Each guard's input turned in its turn: exactly that guard fails, and log, API and page name it
(lifecycle contract, section 6)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.domain.facts import Json
from runs.domain.guards import GUARDS, LABELS
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, RunStatus
from runs.models import Artifact, RoleGrant, RunEvent
from tests import factories
from tests.driver import Driver
from tests.evidence import stored_at

pytestmark = pytest.mark.django_db

S = RunStatus
BINARY = {"path": "logo.png", "old_path": None, "status": "deleted", "binary": True, "added": 0, "deleted": 0}
MODES = {"old_mode": "100644", "new_mode": "100644"}


def judged(policy: Json | None = None, *, reading: Json | None = None, **contract: Any) -> Driver:
    """A run whose judge passed a patch with this reading."""
    driver = Driver.at(S.EXECUTING, policy=policy, **contract)
    driver.post(Ev.PATCH_CREATED, driver.patch(**(reading or {})))
    driver.drive(S.JUDGING)
    driver.post(Ev.JUDGE_PASSED)
    return driver


def doubted(confidence: float = 0.5) -> Driver:
    driver = Driver.at(S.JUDGING)
    driver.post(Ev.JUDGE_PASSED, driver.judgement(confidence=confidence))
    return driver


def flaky() -> Driver:
    driver = Driver.at(S.VERIFYING)
    command = {"name": "test", "command": "true", "exit_code": 0, "duration_ms": 5, "flaky": True}
    driver.post(Ev.VERIFICATION_PASSED, driver.verification(commands=[command]))
    driver.post(Ev.JUDGE_PASSED)
    return driver


def conflicting() -> Driver:
    """The patch applies to its recorded base, and not to today's."""
    driver = Driver.at(S.EXECUTING)
    payload = driver.patch()
    artifact = Artifact.objects.get(pk=payload["patch_artifact_id"])
    artifact.facts["base"]["applies_to_head"] = False
    artifact.save()
    driver.post(Ev.PATCH_CREATED, payload)
    driver.drive(S.JUDGING)
    driver.post(Ev.JUDGE_PASSED)
    return driver


def overspent() -> Driver:
    """As if the gate that opens when a budget is used up did not: the guard is a second lock behind it."""
    driver = Driver.at(S.JUDGING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runs.domain.follow_ups.spent_out", lambda state: False)
        driver.post(Ev.MODEL_DECISION, {**driver.payload(Ev.MODEL_DECISION), "cost_usd": "10.01"})
    driver.post(Ev.JUDGE_PASSED)
    return driver


FOUND = {"path": "app.py", "line": 1}
FLIPS: dict[str, Callable[[], Driver]] = {
    "risk": lambda: judged({"risky_paths": ["app.py"]}),
    "auto_pr_task": lambda: judged(auto_pr=False),
    "auto_pr_repository": lambda: judged({"allow_auto_pr": False}),
    "verification": flaky,
    "judge": doubted,
    "secret_scan": lambda: judged(reading={"secrets": [{**FOUND, "rule": "aws"}]}),
    "paths": lambda: judged({"forbidden_paths": ["app.py"]}),
    "tests_intact": lambda: judged(reading={"weakenings": [{**FOUND, "kind": "test_skipped"}]}),
    "generated_files": lambda: judged({"generated_paths": ["app.py"]}),
    "binary_files": lambda: judged(reading={"files": [{**BINARY, **MODES}]}),
    "special_files": lambda: judged(reading={"special": [{"path": "app.py", "kind": "symlink"}]}),
    "invisible_characters": lambda: judged(reading={"invisible": [{**FOUND, "codepoint": "U+202E"}]}),
    "budget": overspent,
    "base": conflicting,
}


def test_every_guard_is_flipped():
    assert list(FLIPS) == list(GUARDS)


@pytest.mark.parametrize("name", FLIPS)
def test_exactly_the_flipped_guard_is_named_in_log_api_and_page(name):
    driver = FLIPS[name]()
    assert driver.state.status == S.WAITING_FOR_APPROVAL
    store_bytes(driver)
    reviewer = factories.person(PersonRole.REVIEWER)
    RoleGrant.objects.filter(person=reviewer).update(repository=driver.repository)
    client = Client()
    client.force_login(reviewer)
    told = RunEvent.objects.filter(run=driver.run_id, event_type=Ev.POLICY_EVALUATED.value).latest("sequence")
    assert failing(told.facts["guards"]) == [name]
    log = client.get(f"/api/v1/runs/{driver.run_id}/events?limit=200").json()["results"]
    evaluated = [event for event in log if event["type"] == Ev.POLICY_EVALUATED]
    assert failing(evaluated[-1]["facts"]["guards"]) == [name]
    gate = driver.state.gate or {}
    request = client.get(f"/api/v1/approvals/{gate['approval_id']}").json()
    assert failing(request["guards"]) == [name]
    (guard,) = (guard for guard in request["guards"] if guard["name"] == name)
    for page in (f"/runs/{driver.run_id}/?tab=evidence", reverse("approval", args=[gate["approval_id"]])):
        shown = client.get(page).content.decode()
        assert shown_as_failing(shown) == {name: LABELS[name]}, page
        assert guard["would_pass_if"].split("'")[0][:40] in shown.replace("&#x27;", "'")


def store_bytes(driver: Driver) -> None:
    """What the review page shows below the guards."""
    place = stored_at(Artifact.objects.get(run=driver.run_id, kind=ArtifactKind.PATCH))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-a\n+b\n")


def failing(guards: list[Json]) -> list[str]:
    return [guard["name"] for guard in guards if guard["passed"] is not True]


def shown_as_failing(page: str) -> dict[str, str]:
    """Each guard that the page shows as not passed, with the words that a person reads."""
    rows = r'<li data-tone="(?:bad|warn)" id="guard-(\w+)">.*?<span class="name">([^<]*)'
    return dict(re.findall(rows, page))
