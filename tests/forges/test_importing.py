"""Repositories brought in from a forge or a file, and kept in step: by command, by the clock, by admins."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agentplatform.clock import database_now
from runs import tasks
from runs.domain.vocabulary import PersonRole
from runs.importing import import_due
from runs.models import AuditEntry, Organisation, Policy, PolicyVersion, Repository
from runs.models.audit import Act
from runs.service import imports
from tests import factories
from tests.forges.faults import Fault
from tests.forges.github import FakeGitHub
from tests.forges.gitlab import FakeGitLab
from tests.forges.kinds import FORGES
from tests.forges.serving import FakeForge, serving

pytestmark = pytest.mark.django_db

LISTING = {"github": "/orgs/acme/repos", "gitlab": "/groups/acme/projects", "gitea": "/orgs/acme/repos"}
HOSTS = {"github": "github.com", "gitlab": "gitlab.com", "gitea": "gitea.com"}
_WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE)", re.IGNORECASE)


@pytest.fixture(params=sorted(FORGES))
def forge(request, settings, tmp_path) -> Iterator[FakeForge]:
    with serving(FORGES[request.param], tmp_path) as forge:
        settings.REPOSITORY_CREDENTIALS = str(tmp_path / "credentials.toml")
        (tmp_path / "credentials.toml").write_text(f'["*acme/*"]\n{forge.credentials()}')
        yield forge


def holds(forge: FakeForge, count: int) -> None:
    forge.repositories = [
        {"id": 1_000 + n, "path": f"acme/r{n:03}", "branch": "main", "archived": False} for n in range(count)
    ]


def bring_in(forge: FakeForge, *words: str) -> str:
    out = io.StringIO()
    asked = ("--organisation", "acme", "--provider", forge.name)
    call_command("import_repositories", *asked, *words, stdout=out)
    return out.getvalue()


def all_rows() -> list[Any]:
    """Everything that an import may write."""
    models = (Repository, Policy, PolicyVersion, AuditEntry, Organisation)
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.mark.parametrize("count", [120, pytest.param(500, marks=pytest.mark.long)])
def test_importing_twice_changes_nothing_the_second_time(forge, count):
    holds(forge, count)
    with CaptureQueriesContext(connection) as first:
        assert f"{count} listed: {count} new" in bring_in(forge)
    assert Repository.objects.count() == count
    before = all_rows()
    with CaptureQueriesContext(connection) as second:
        said = bring_in(forge)
    assert f"0 new, 0 changed, 0 refused, {count} as they were." in said
    assert [query["sql"] for query in second if _WRITES.match(query["sql"])] == []
    assert all_rows() == before
    assert len(second) < len(first) < 30, "a fixed number of statements"


def test_500_repositories_of_a_file_twice(tmp_path):
    file = tmp_path / "all.csv"
    rows = [f"acme/r{n},https://git.example/acme/r{n}.git,{n}" for n in range(500)]
    file.write_text("\n".join(["name,url,id", *rows]))
    call_command("import_repositories", str(file), stdout=io.StringIO())
    before = all_rows()
    with CaptureQueriesContext(connection) as queries:
        call_command("import_repositories", str(file), stdout=io.StringIO())
    assert [query["sql"] for query in queries if _WRITES.match(query["sql"])] == []
    assert (all_rows(), Repository.objects.count()) == (before, 500)


def test_what_is_brought_in_is_as_the_forge_has_it_and_has_a_policy_of_its_own(forge):
    holds(forge, 1)
    forge.repositories[0] |= {"branch": "trunk"}
    above = Policy.objects.create(name="house")
    bring_in(forge, "--inherits", "house", "--prefix", "one-")
    row = Repository.objects.get()
    host = HOSTS[forge.name]
    assert (row.name, row.url) == ("one-acme/r000", f"https://{host}/acme/r000.git")
    assert (row.provider, row.base_branch, row.forge_key) == (forge.name, "trunk", f"{host}:1000")
    assert (row.policy.inherits, row.policy.name) == (above, "repository/one-acme/r000")
    entry = AuditEntry.objects.get(target_id=row.pk)
    assert (entry.act, entry.by) == (Act.ADDED, "command line")
    assert entry.note == f"Imported from acme at {forge.name}."


def test_renames_and_archives_are_kept_in_step_and_written_down(forge, client: Client):
    holds(forge, 3)
    bring_in(forge)
    ids = dict(Repository.objects.values_list("name", "pk"))
    forge.repositories[0]["path"], forge.repositories[1]["path"] = "acme/r001", "acme/r000"
    forge.repositories[2]["archived"] = True
    said = bring_in(forge)
    assert "changed  acme/r000 → acme/r001" in said
    assert "changed  acme/r002, archived" in said
    now = dict(Repository.objects.values_list("name", "pk"))
    assert now == {**ids, "acme/r000": ids["acme/r001"], "acme/r001": ids["acme/r000"]}
    client.force_login(factories.person(PersonRole.VIEWER))
    assert "Archived at the forge." in client.get("/repositories/acme/r002/").content.decode()
    entry = AuditEntry.objects.get(target_id=ids["acme/r002"], act=Act.CHANGED)
    assert (entry.before["archived_at"], bool(entry.after["archived_at"])) == (None, True)
    forge.repositories[2]["archived"] = False
    assert "acme/r002, in use again" in bring_in(forge)
    assert Repository.objects.get(name="acme/r002").archived_at is None


def test_what_a_person_changes_while_the_forge_is_looked_at_stays_theirs(forge, monkeypatch):
    holds(forge, 2)
    bring_in(forge)
    forge.repositories[0]["branch"] = forge.repositories[1]["branch"] = "trunk"
    plan = imports._plan

    def slowly(listed: Any) -> Any:
        made = plan(listed)
        Repository.objects.filter(name="acme/r000").update(archived_at=database_now())
        Repository.objects.filter(name="acme/r001").update(base_branch="stable")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(imports, "_plan", slowly)
        bring_in(forge)
    first, second = Repository.objects.order_by("name")
    assert (first.base_branch, first.archived_at is not None) == ("trunk", True)
    assert second.base_branch == "stable"


def test_a_new_repository_with_a_name_that_another_gave_up_has_a_policy_of_its_own(forge):
    holds(forge, 1)
    bring_in(forge)
    forge.repositories[0]["path"] = "acme/old"
    forge.repositories.append({"id": 7, "path": "acme/r000", "branch": "main", "archived": False})
    bring_in(forge)
    old, new = Repository.objects.get(name="acme/old"), Repository.objects.get(name="acme/r000")
    assert old.policy.name == "repository/acme/r000"
    assert new.policy.name.startswith("repository/acme/r000 policy_")


def test_a_dry_run_says_all_and_writes_nothing(forge):
    holds(forge, 2)
    before = all_rows()
    said = bring_in(forge, "--dry-run", "--keep-in-step")
    assert "new      acme/r000" in said
    assert "2 new, 0 changed, 0 refused, 0 as they were. Nothing was written." in said
    assert all_rows() == before


def test_only_names_that_fit_are_brought_in(forge):
    holds(forge, 3)
    bring_in(forge, "--only", "acme/*1")
    assert list(Repository.objects.values_list("name", flat=True)) == ["acme/r001"]


def test_a_group_has_its_subgroups_repositories(settings, tmp_path):
    with serving(FakeGitLab, tmp_path) as forge:
        settings.REPOSITORY_CREDENTIALS = str(tmp_path / "credentials.toml")
        (tmp_path / "credentials.toml").write_text(f'["acme/*"]\n{forge.credentials()}')
        forge.repositories = [{"id": 1, "path": "acme/web/clock", "branch": None, "archived": False}]
        bring_in(forge)
    row = Repository.objects.get()
    assert (row.name, row.base_branch) == ("acme/web/clock", "main")


@pytest.mark.parametrize(
    "fault", [Fault.ERROR_BEFORE, Fault.LOST_ANSWER, Fault.RATE_LIMITED, Fault.HTML_AFTER]
)
def test_a_list_that_cannot_be_had_whole_changes_nothing(forge, fault):
    holds(forge, 120)
    bring_in(forge)
    before = all_rows()
    forge.repositories[0]["archived"] = True
    original = forge.paged

    def first_page_alone(rows: list[Any], path: str, query: dict[str, str]) -> Any:
        forge.plan("GET", LISTING[forge.name], fault, times=5)
        return original(rows, path, query)

    forge.paged = first_page_alone
    with pytest.raises(CommandError, match="Nothing was changed"):
        bring_in(forge)
    assert all_rows() == before


def test_a_token_that_is_not_taken_is_said(forge):
    forge.tokens.clear()
    with pytest.raises(CommandError, match=re.escape(forge.denied)):
        bring_in(forge)


def test_an_app_lists_its_organisation_with_a_token_for_all_of_it(settings, tmp_path):
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "key.pem").write_bytes(pem)
    with serving(FakeGitHub, tmp_path) as forge:
        forge.app = ("12345", public.decode())
        forge.tokens.clear()
        settings.REPOSITORY_CREDENTIALS = str(tmp_path / "credentials.toml")
        fields = forge.credentials(app_id="12345", private_key_file=str(tmp_path / "key.pem"))
        (tmp_path / "credentials.toml").write_text(f'["acme/*"]\n{fields}')
        holds(forge, 2)
        bring_in(forge)
    assert Repository.objects.count() == 2


# --- kept in step ---------------------------------------------------------------------------------


def due() -> None:
    Organisation.objects.update(next_look_at=database_now())


def test_an_organisation_that_is_kept_is_looked_at_each_hour(forge):
    holds(forge, 1)
    bring_in(forge, "--keep-in-step")
    bring_in(forge, "--keep-in-step", "--only", "acme/*")
    assert Organisation.objects.get(path="acme").only == "acme/*"
    assert import_due() == [], "it was looked at just now"
    holds(forge, 2)
    due()
    tasks.import_repositories()
    assert Repository.objects.count() == 2
    row = Organisation.objects.get()
    assert row.found == "2 listed: 1 new, 0 changed, 0 refused, 1 as they were."
    assert row.next_look_at > database_now()
    assert AuditEntry.objects.filter(kind="repository", by="Control plane").count() == 1


def test_a_forge_that_does_not_answer_is_asked_again_soon_and_changes_nothing(forge):
    holds(forge, 1)
    bring_in(forge, "--keep-in-step")
    due()
    forge.plan("GET", LISTING[forge.name], Fault.ERROR_BEFORE, times=2)
    (looked,) = import_due()
    assert (looked.failed, "502" in looked.said) == (True, True)
    assert "Nothing was changed" in Organisation.objects.get().found


def test_admins_register_organisations_and_ask_for_a_look_that_no_request_makes(client: Client, forge):
    client.force_login(factories.person(PersonRole.ADMIN, is_staff=True, is_superuser=True))
    holds(forge, 1)
    form = {"provider": forge.name, "path": "acme", "only": "*", "kept": "on", "reason": "We work there."}
    assert client.post("/admin/runs/organisation/add/", form).status_code == 302
    assert forge.calls == []
    row = Organisation.objects.get()
    assert "It is brought in already." in client.post("/admin/runs/organisation/add/", form).content.decode()
    chosen = {"action": "look_now", "index": "0", "_selected_action": [row.pk], "reason": "x"}
    answer = client.post("/admin/runs/organisation/", chosen, follow=True)
    assert "within a minute" in answer.content.decode()
    assert forge.calls == []
    assert len(import_due()) == 1
    assert "1 listed: 1 new" in client.get("/admin/runs/organisation/").content.decode()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.csv", "--organisation", "acme"], "not both"),
        ([], "No organisation is kept in step"),
        (["/nowhere.csv"], "No such file"),
        (["--organisation", "acme", "--inherits", "none"], "There is no policy none"),
        (["--organisation", "acme", "--host", "https://git.example"], "host: A host alone"),
        (["--organisation", "a b"], "path: A name or a path"),
    ],
)
def test_a_command_that_is_wrong_says_what_to_do(words, message):
    with pytest.raises(CommandError, match=message):
        call_command("import_repositories", *words)


def test_a_file_brings_in_the_right_rows_and_says_which_it_refused(tmp_path):
    file = tmp_path / "all.json"
    file.write_text(
        '[{"name": "a", "url": "https://git.example/x/a.git"}, {"name": "b", "url": "ext::sh -c id"},'
        ' {"name": "c", "url": "https://u:p@git.example/x/c.git"}]'
    )
    out = io.StringIO()
    call_command("import_repositories", str(file), stdout=out)
    assert "refused  b: its url must be an address" in out.getvalue()
    assert "refused  c: its url must hold no password" in out.getvalue()
    assert list(Repository.objects.values_list("name", flat=True)) == ["a"]
