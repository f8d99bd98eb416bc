"""Policies over repositories by patterns of their names: which hold, in which order, and who is told."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs import store
from runs.domain.policy import Level
from runs.domain.vocabulary import PersonRole, TaskStatus
from runs.models import Policy, PolicyRule, Repository
from runs.selectors.policies import effective_policies, names_fitting, policy_effects
from tests import factories
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db


def policy(name: str, above: Policy | None = None, **values: object) -> Policy:
    made = Policy.objects.create(name=name, inherits=above)
    store.add_policy_version(made, values, by="test")
    return made


def rule(pattern: str, over: Policy, position: int = 100) -> PolicyRule:
    return PolicyRule.objects.get(
        pk=PolicyRule.objects.create(pattern=pattern, policy=over, position=position).pk
    )


def levels(where: Repository) -> list[tuple[str, str]]:
    """(policy, how it came to hold), the farthest first; both readers of the chain must agree."""
    many = effective_policies(repository_ids=[where.pk])[where.pk]
    one = store.effective_policy(where.pk)
    assert (many.levels, many.version, many.values) == (one.levels, one.version, one.values)
    return [(level.name, level.via) for level in many.levels]


@pytest.fixture
def platform() -> Policy:
    return policy(Policy.PLATFORM)


@pytest.fixture
def clock(platform) -> Repository:
    where = factories.repository("acme/clock", policy={"judge_confidence": 0.7})
    where.policy.inherits = platform
    where.policy.save()
    return where


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("acme/*", True),
        ("*", True),
        ("acme/cl?ck", True),
        ("*clock", True),
        ("acme/clock", True),
        ("acme/clo", False),
        ("acme/c_ock", False),
        ("acme/%", False),
        ("ACME/*", False),
        ("acme\\/clock", False),
    ],
)
def test_a_pattern_knows_star_and_question_mark_and_takes_all_else_as_it_is(clock, pattern, fits):
    made = rule(pattern, policy("strict"))
    assert (("strict", "pattern") in levels(clock)) == fits
    assert names_fitting(rule=made) == (["acme/clock"] if fits else [])


def test_rules_stand_between_the_platform_and_the_repositorys_own_in_the_order_of_their_position(
    clock, platform
):
    company = policy("company", platform)
    rule("*", policy("near", company), position=900)
    rule("acme/*", policy("far", company), position=10)
    rule("acme/cl*", policy("middle"), position=10)
    assert levels(clock) == [
        ("platform", "inherited"),
        ("company", "inherited"),
        ("far", "pattern"),
        ("middle", "pattern"),
        ("near", "pattern"),
        (clock.policy.name, "own"),
    ]


def test_all_that_fit_hold_and_none_of_them_frees_from_another(clock, platform):
    rule("acme/*", policy("sure", judge_confidence=0.95, lease_seconds=90), position=1)
    rule("*clock", policy("lax", judge_confidence=0.1, lease_seconds=120), position=2)
    values = store.effective_policy(clock.pk).values
    assert (values["judge_confidence"], values["lease_seconds"]) == (0.95, 120)


def test_a_policy_that_is_reached_twice_counts_where_it_is_reached_first(clock, platform):
    clock.policy.inherits = shared = policy("shared", platform, judge_confidence=0.9)
    clock.policy.save()
    rule("acme/*", shared)
    rule("*", shared)
    assert levels(clock) == [
        ("platform", "inherited"), ("shared", "pattern"), (clock.policy.name, "own"),
    ]  # fmt: skip
    assert store.effective_policy(clock.pk).version.count("shared@1") == 1


def test_a_run_is_judged_by_what_rules_put_over_it(clock):
    rule("acme/*", policy("calm", risk_ceiling="low"))
    rejected = factories.task(clock, risk_level="high")
    assert rejected.status == TaskStatus.REJECTED
    run = factories.queued_run(clock)
    rule("*", policy("later", on_red_base="fail"))
    assert store.take_run(run.pk).around.policy == store.effective_policy(clock.pk)


def test_a_renamed_repository_leaves_the_rules_of_its_old_name(clock):
    rule("acme/*", policy("strict"))
    Repository.objects.filter(pk=clock.pk).update(name="shop/clock")
    assert ("strict", "pattern") not in levels(clock)


def test_the_effect_of_a_new_version_counts_repositories_that_a_rule_reaches(clock, platform):
    company = policy("company", platform)
    rule("acme/*", policy("strict", company))
    factories.repository("elsewhere")
    effects = policy_effects(policy=company, values={"judge_confidence": 0.99})
    assert (effects["repositories"], [one["name"] for one in effects["shown"]]) == (1, ["acme/clock"])


def test_the_platforms_policy_reaches_those_that_inherit_from_nothing(platform):
    alone = factories.repository("alone")
    assert alone.policy.inherits is None
    effects = policy_effects(policy=platform, values={"judge_confidence": 0.99})
    assert "alone" in [one["name"] for one in effects["shown"]]


def test_policies_of_many_repositories_are_one_query(clock):
    rule("*", policy("strict"))
    ids = [factories.repository().pk for _ in range(5)]
    first = dict.fromkeys(ids, "strict")
    with CaptureQueriesContext(connection) as queries:
        found = effective_policies(repository_ids=ids)
    assert len(queries) == 1
    assert {pk: one.levels[1].name for pk, one in found.items()} == first


def test_api_and_page_say_where_each_value_comes_from(client: Client, clock):
    rule("acme/*", policy("strict", judge_confidence=0.9))
    viewer = factories.person(PersonRole.VIEWER)
    shown = Caller(factories.person_token(viewer)).get("repositories/acme/clock").json()["policy"]
    own = {"policy": clock.policy.name, "version": 1, "via": "own", "pattern": None}
    assert shown["levels"] == [
        {"policy": "platform", "version": 1, "via": "inherited", "pattern": None},
        {"policy": "strict", "version": 1, "via": "pattern", "pattern": "acme/*"},
        own,
    ]
    client.force_login(viewer)
    page = " ".join(client.get("/repositories/acme/clock/").content.decode().split())
    assert 'class="mono">0.9</span> <span class="meta">strict (pattern acme/*); ' in page
    assert f"{clock.policy.name} (its own) says 0.7" in page
    assert "strict, " not in page
    listed = client.get("/repositories/").content.decode()
    assert f"<td>{clock.policy.name}, strict</td>" in listed


def test_the_platform_is_above_all_others_whatever_inherits_from_it(platform):
    alone = factories.repository()
    store.add_policy_version(platform, {"allow_auto_pr": False}, by="test")
    assert levels(alone)[0] == ("platform", "inherited")
    assert store.effective_policy(alone.pk).values["allow_auto_pr"] is False


def test_a_rule_is_set_in_admin_and_says_at_once_where_it_holds(client: Client, clock):
    chief = factories.person(PersonRole.ADMIN, is_staff=True, is_superuser=True)
    client.force_login(chief)
    strict = policy("strict")
    form = {"pattern": "acme/*", "policy": strict.pk, "position": 5, "reason": "Money moves there."}
    said = client.post("/admin/runs/policyrule/add/", form, follow=True).content.decode()
    assert "It holds for 1 repository: acme/clock." in said
    again = client.post("/admin/runs/policyrule/add/", form).content.decode()
    assert "There is this rule already." in again
    assert levels(clock)[1] == ("strict", "pattern")
    entry = client.get("/admin/runs/auditentry/").content.decode()
    assert "acme/* → strict" in entry
    assert "Money moves there." in entry


# --- archived -------------------------------------------------------------------------------------


def test_an_archived_repository_takes_no_new_task_and_says_so(client: Client, clock):
    submitter = factories.person(PersonRole.SUBMITTER)
    draft = factories.task(clock, submitter, submit=False)
    Repository.objects.filter(pk=clock.pk).update(archived_at="2026-12-01T00:00:00Z")
    caller = Caller(factories.person_token(submitter))
    for path, body in (
        ("tasks", factories.contract(repository="acme/clock")),
        (f"tasks/{draft.pk}/submit", {}),
    ):
        answer = caller.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "not_allowed_now")
        assert "acme/clock is archived" in answer.json()["detail"]
    client.force_login(submitter)
    page = client.get("/repositories/acme/clock/").content.decode()
    assert "No new task is taken since" in page
    assert "New task here" not in page
    assert "acme/clock" not in client.get("/repositories/").content.decode()
    assert "acme/clock" in client.get("/repositories/?show=archived").content.decode()


def test_the_list_is_searched_by_name_and_read_page_by_page(client: Client, monkeypatch):
    monkeypatch.setattr("runs.selectors.repositories.PAGE", 2)
    for name in ("a/one", "a/two", "b/one"):
        factories.repository(name)
    client.force_login(factories.person(PersonRole.VIEWER))
    first = client.get("/repositories/").content.decode()
    assert ("a/two" in first, "b/one" in first) == (True, False)
    assert 'href="?after=a%2Ftwo"' in first
    assert "b/one" in client.get("/repositories/?after=a%2Ftwo").content.decode()
    found = client.get("/repositories/?q=ONE").content.decode()
    assert ("a/one" in found, "a/two" in found) == (True, False)


def test_the_levels_are_those_of_the_domain(clock):
    found = effective_policies(repository_ids=[clock.pk])[clock.pk].levels[-1]
    assert found == Level(clock.policy.name, 1, {"judge_confidence": 0.7}, "own", "")
