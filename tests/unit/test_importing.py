"""What an import changes, of what is known and what is listed; and what a file may say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from runs.domain.errors import Invalid
from runs.domain.import_file import read_import_file
from runs.domain.importing import Known, Listed, plan_import, said_of
from runs.domain.places import place_of


def listed(name: str = "acme/clock", number: int = 1, **fields: object) -> Listed:
    url = str(fields.pop("url", f"https://git.example/{name}.git"))
    one = Listed(
        name=name,
        url=url,
        provider="gitea",
        key=f"git.example:{number}",
        place=place_of(url),
        base_branch="main",
        archived=False,
    )
    return replace(one, **fields)  # type: ignore[arg-type]


def known(one: Listed, **fields: object) -> Known:
    """As it was brought in."""
    row = Known(
        id=f"repo_{one.key or one.name}",
        name=one.name,
        url=one.url,
        base_branch=one.base_branch,
        archived=bool(one.archived),
        key=one.key,
        place=one.place,
        said=said_of(one),
    )
    return replace(row, **fields)  # type: ignore[arg-type]


def changes(now: Listed, before: Known) -> dict[str, object]:
    plan = plan_import([now], [before])
    return plan.changed[0].fields if plan.changed else {}


def test_what_is_in_step_stays_as_it_is():
    many = [listed(f"acme/r{n}", n) for n in range(500)]
    plan = plan_import(many, [known(one) for one in many])
    assert (plan.new, plan.changed, plan.refused, plan.unchanged) == ([], [], [], 500)
    assert plan.summary == "500 listed: 0 new, 0 changed, 0 refused, 500 as they were."


def test_a_renamed_repository_is_known_again_by_the_forges_id():
    plan = plan_import([listed("acme/watch")], [known(listed())])
    assert plan.new == []
    (change,) = plan.changed
    assert change.fields == {"name": "acme/watch", "url": "https://git.example/acme/watch.git"}
    assert change.in_words == "acme/clock → acme/watch"


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({"archived": True}, "acme/clock, archived"),
        ({"base_branch": "trunk"}, "acme/clock, base branch trunk"),
        (
            {"url": "https://new.example/acme/clock.git"},
            "acme/clock, now at https://new.example/acme/clock.git",
        ),
    ],
)
def test_what_changed_at_the_forge_changes_here(now, words):
    (change,) = plan_import([listed(**now)], [known(listed())]).changed
    assert change.in_words == words


def test_an_archive_is_lifted_where_the_forge_lifts_it():
    assert changes(listed(), known(listed(archived=True))) == {"archived": False}


@pytest.mark.parametrize(
    ("field", "mine", "theirs"),
    [
        ("name", "clock", "acme/watch"),
        ("url", "git@git.example:acme/clock.git", "https://git.example/acme/x.git"),
        ("base_branch", "stable", "trunk"),
        ("archived", True, False),
    ],
)
def test_what_a_person_changed_here_stays_theirs(field, mine, theirs):
    before = known(listed(), **{field: mine})
    assert field not in changes(listed(**{field: theirs}), before)


def test_one_that_was_made_by_hand_is_known_by_its_address_and_keeps_what_it_was_given():
    before = known(listed(), name="clock", url="git@git.example:acme/clock", key="", said={})
    (change,) = plan_import([listed(archived=True)], [before]).changed
    assert change.fields == {"archived": True}
    assert change.listed.key == "git.example:1"
    assert plan_import([listed()], [before]).new == []


def test_names_may_change_hands():
    a, b = listed("acme/a", 1), listed("acme/b", 2)
    plan = plan_import([listed("acme/b", 1), listed("acme/a", 2)], [known(a), known(b)])
    assert [change.fields["name"] for change in plan.changed] == ["acme/b", "acme/a"]
    plan = plan_import([listed("acme/c", 1), listed("acme/a", 3)], [known(a)])
    assert ([c.fields["name"] for c in plan.changed], [n.name for n in plan.new]) == (["acme/c"], ["acme/a"])


@pytest.mark.parametrize(
    ("rows", "before", "why"),
    [
        ([listed(), listed()], [], "listed twice"),
        ([listed("acme/watch", 2)], [known(listed("other/watch", 9), name="acme/watch")], "taken by"),
        ([listed("acme/clock", 2)], [known(listed())], "was another repository"),
        ([listed("acme/../clock")], [], "must not hold"),
        ([listed("-x")], [], "must be 1 to 128"),
        ([listed("a b")], [], "must be 1 to 128"),
        ([listed("x" * 129)], [], "must be 1 to 128"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_with_the_reason_and_overwrites_nothing(rows, before, why):
    plan = plan_import(rows, before)
    assert why in plan.refused[-1][1]
    assert (plan.changed, len(plan.new)) == ([], len(rows) - len(plan.refused))


def test_a_rename_onto_a_name_in_use_leaves_both_as_they_were():
    a, b = listed("acme/a", 1), listed("acme/b", 2)
    plan = plan_import([listed("acme/b", 1, url=a.url), b], [known(a), known(b)])
    assert (plan.changed, plan.unchanged, len(plan.refused)) == ([], 1, 1)


# --- files ----------------------------------------------------------------------------------------


def test_a_file_is_csv_with_headings_or_a_list_in_json():
    text = "name,url,provider,id,archived\nacme/a,https://git.example/acme/a.git,gitea,7,yes\n"
    row = {
        "name": "acme/a",
        "url": "https://git.example/acme/a.git",
        "provider": "gitea",
        "id": 7,
        "archived": True,
    }
    (one,) = read_import_file(text.encode(), is_json=False)
    assert read_import_file(json.dumps([row]).encode(), is_json=True) == [one]
    assert (one.key, one.place, one.archived) == ("git.example:7", "git.example/acme/a", True)
    (bare,) = read_import_file(b"\xef\xbb\xbfname,url\r\na,/srv/a.git\r\n", is_json=False)
    assert (bare.provider, bare.key, bare.base_branch, bare.archived) == ("git", "", "", None)


def test_a_row_without_an_id_is_known_by_address_and_else_by_name():
    (one,) = read_import_file(b"name,url\na,/srv/a.git\n", is_json=False)
    moved = replace(one, url="/srv/b.git", place="/srv/b")
    assert changes(moved, known(one)) == {"url": "/srv/b.git"}
    assert changes(replace(one, name="b"), known(one)) == {"name": "b"}


@pytest.mark.parametrize(
    ("data", "is_json", "where", "said"),
    [
        (b"name\na\n", False, "line 1", "url is missing"),
        (b"name,url\na,\n", False, "line 2", "url is missing"),
        (b"name,url,colour\na,/r,red\n", False, "line 2", "colour is not known"),
        (b"name,url\na,/r,x\n", False, "line 2", "more is not known"),
        (b"name,url,archived\na,/r,perhaps\n", False, "line 2", "archived must be true or false"),
        (b"name,url\n\xff,/r\n", False, "file", "not UTF-8"),
        (b'name,url\n"a,/r\n', False, "line 2", "unexpected end"),
        (b"{", True, "file", ""),
        (b"{}", True, "file", "must be a list"),
        (b'[7, {"name": "a", "url": 7}]', True, "item 2", "url must be text"),
        (b'[7, {"name": "a", "url": 7}]', True, "item 1", "must be an object"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_brings_in_nothing(data, is_json, where, said):
    with pytest.raises(Invalid) as wrong:
        read_import_file(data, is_json=is_json)
    assert said in " ".join(wrong.value.extra["errors"][where])
