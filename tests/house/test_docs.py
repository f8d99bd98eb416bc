"""Documents that cannot lie: what the code has stands in them, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from agentplatform import documents
from agentplatform.documents.api import WHO, call_of
from agentplatform.documents.commands import names as commands
from agentplatform.problem import STATUS
from agentplatform.variables import ENVIRONMENT
from runs.api.schema import openapi
from runs.domain.campaigns.words import CampaignEv, CampaignStatus, PartState
from runs.domain.guards import GUARDS
from runs.domain.policy import DEFAULTS, MEANINGS, STRICTER
from runs.domain.vocabulary import Ev, FailureCategory, RunStatus, TaskEv, TaskStatus
from tests.api.test_permissions import EVERYBODY, GIT, HOLDER, LISTS, TABLE
from tests.house.sources import ROOT

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
WRITTEN = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
ROUTES = [
    call_of(method, path)
    for path, item in openapi()["paths"].items()
    for method in item
    if method != "parameters"
]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"```.*?```", re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_COMMAND = re.compile(r"(?:manage\.py|\bmanage) ([a-z_]+)")
_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
_MAKE = re.compile(r"`make ([a-z-]+)`|^make ([a-z-]+)$", re.MULTILINE)


def first_cells(name: str) -> set[str]:
    """What the tables of a page are about: their first column, and headings that are code."""
    text = (REFERENCE / name).read_text()
    return set(re.findall(r"^\| (?:\d+ \| )?`([^`]+)`", text, re.MULTILINE)) | set(
        re.findall(r"^## `([^`]+)`$", text, re.MULTILINE)
    )


def test_no_generated_document_is_stale():
    assert documents.differences(DOCS) == ""


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("lifecycle.md", [*RunStatus, *TaskStatus, *FailureCategory, *TaskEv]),
        ("lifecycle.md", [*CampaignStatus, *PartState, *CampaignEv]),
        ("lifecycle.md", [event for event in Ev if event is not Ev.RUN_CREATED]),  # begins the log: no row
        ("events.md", list(Ev)),
        ("errors.md", list(STATUS)),
        ("guards.md", list(GUARDS)),
        ("policy.md", list(DEFAULTS)),
        ("settings.md", [variable.name for variable in ENVIRONMENT]),
        ("commands.md", [*(f"manage.py {name}" for name in commands()), "python -m worker"]),
        ("api.md", ROUTES),
    ],
)
def test_the_page_has_every_one_of_them(page, words):
    assert words
    assert {str(word) for word in words} - first_cells(page) == set()


def test_every_policy_field_says_what_it_means_and_how_levels_meet():
    assert MEANINGS.keys() == DEFAULTS.keys() == STRICTER.keys()
    assert [name for name, meet in STRICTER.items() if not meet.__doc__] == []


#: The words of the page → who gets past authorisation in the table that every route is called by.
CALLERS = {
    "people and workers, each what they may see": [LISTS, EVERYBODY],
    "people, each what they may see": [TABLE["GET", "tasks"]],
    "people who may see all of its repositories": [TABLE["GET", "campaigns/{campaign_id}"]],
    "people of the repository": [TABLE["GET", "tasks/{task_id}"]],
    "people of the repository, and who holds or held the run": [TABLE["GET", "runs/{run_id}"]],
    "submitter, operator, admin": [frozenset({"submitter", "operator", "admin"})],
    "operator, admin; a submitter on their own": [frozenset({"operator", "admin"})],
    "operator, admin": [frozenset({"operator", "admin"})],
    "reviewer, admin; never on their own": [frozenset({"reviewer", "admin"})],
    "reviewer, operator, admin": [frozenset({"reviewer", "operator", "admin"})],
    "submitter, reviewer, operator, admin": [frozenset({"submitter", "reviewer", "operator", "admin"})],
    "worker accounts, by their roles": [TABLE["POST", "leases"]],
    "who holds the lease": [HOLDER],
    "people of the repository, and git integration": [TABLE["GET", "tasks/{task_id}"] | GIT],
    "git integration": [GIT],
}


@pytest.mark.parametrize(("who", "call"), [(who, call) for who, calls in WHO.items() for call in calls])
def test_who_may_call_is_who_gets_through(who, call):
    method, _, route = call.partition(" ")
    assert TABLE[method, route] in CALLERS[who]


def test_who_may_call_is_said_of_every_route():
    assert sorted(call for calls in WHO.values() for call in calls) == sorted(ROUTES)


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    assert [link for link in links_of(document) if not resolves(document, link)] == []


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_exist(document):
    known = get_commands()
    assert {name for name in _COMMAND.findall(document.read_text()) if name not in known} == set()


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_make_targets_exist(document):
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    named = {first or second for first, second in _MAKE.findall(document.read_text())}
    assert named - targets == set()


def test_every_document_is_in_the_index():
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(index)}
    outside = {index, *(DOCS / "decisions").glob("*.md")}
    assert {path for path in DOCS.rglob("*.md") if path not in outside and path not in linked} == set()


def links_of(document: Path) -> list[str]:
    """Links to files and headings; those to other sites are nobody's to test here."""
    text = _FENCED.sub("", document.read_text())
    return [link for link in _LINK.findall(text) if not link.startswith(("http://", "https://", "mailto:"))]


def resolves(document: Path, link: str) -> bool:
    """Whether the file is there, and in it the heading."""
    name, _, anchor = link.partition("#")
    target = (document.parent / name).resolve() if name else document
    if not target.exists():
        return False
    return not anchor or anchor in {anchor_of(title) for title in _HEADING.findall(target.read_text())}


def anchor_of(title: str) -> str:
    """As forges make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    ("link", "there"),
    [("there.md", True), ("there.md#a-title", True), ("gone.md", False), ("there.md#x", False)],
)
def test_a_broken_link_is_found(tmp_path, link, there):
    (tmp_path / "there.md").write_text("# A title\n")
    page = tmp_path / "page.md"
    page.write_text(f"[see]({link})")
    assert [resolves(page, found) for found in links_of(page)] == [there]
