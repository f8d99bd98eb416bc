"""Patches byte for byte as git, or a hand, wrote them: what the upload says, what the guards make of it, what
comes back at a download, and what the page shows of each file."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest
from django.test import Client
from django.urls import reverse

from runs.domain import guards
from runs.domain.facts import Json
from runs.domain.policy import effective
from runs.domain.state import RunState
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Artifact
from tests import factories
from tests.api.calls import LeasedCaller, problem
from tests.git.repos import Remote
from tests.unit.patch_cases import CASES, KEY
from tests.unit.patch_cases_guard import GUARD_CASES

pytestmark = pytest.mark.django_db

ALL = {**CASES, **GUARD_CASES}
#: What an upload refuses: its code, and words that say what to do or where.
REFUSED: Mapping[str, tuple[str, str]] = {
    "binary_after_text_plain": ("not_a_patch", "git diff --binary"),
    "codex_format": ("not_a_patch", "patch"),
    "short_hunk": ("not_a_patch", "line 8"),
    "traversal": ("unsafe_path", "../../../etc/cron.d/x"),
    "absolute": ("unsafe_path", "/etc/cron.d/x"),
    "dotgit": ("unsafe_path", ".git/hooks/pre-commit"),
    "dot_segment": ("unsafe_path", ".github/./workflows/ci.yml"),
}


class Taken(NamedTuple):
    """Guards that do not pass, and what is read on the page of each of the patch's files, in its order."""

    failing: str = ""
    shown: tuple[str, ...] = ()


TAKEN: Mapping[str, Taken] = {
    "sqlcomment": Taken("", ("q.sql \\+1 −2 .* 1 − -- old note 2 1 select 1 ;",)),
    "quoted_ui": Taken("", ("café notes.txt .* 1 − a 1 \\+ b",)),
    "quoted_tab": Taken("", ('we ␉ ird"q.txt .* 1 − a 1 \\+ b',)),
    "b_in_name": Taken("", ("x b/y.txt .* 1 − a 1 \\+ b",)),
    "crlf": Taken("", ("2 − b ␍ 2 \\+ B ␍",)),
    "lone_cr": Taken("", ("2 \\+ norm R ␍ X done ⋮",)),
    "ff_ls": Taken(
        "invisible_characters", ("\\+2 −0 .* U\\+2028 U\\+0085 U\\+001C U\\+000B end .* 3 \\+ c = 3",)
    ),
    "hidden_ls": Taken(
        "secret_scan invisible_characters", ("\\+1 −0 .* # note U\\+2028 -a = 1 U\\+2028 \\+k",)
    ),
    "latin1": Taken("", ("Not UTF-8: .* 1 \\+ na \\\\xEF ve caf \\\\xE9",)),
    "noeol_both": Taken("", ("2 − b No newline at end of file 2 \\+ c No newline at end of file",)),
    "noeol_only": Taken("", ("2 − b No newline at end of file 2 \\+ b ⋮",)),
    "binary_after_text": Taken(
        "secret_scan binary_files", ("a.json \\+1 −1", "z.png \\+0 −0 .* Binary file, 8 B → 9 B")
    ),
    "binary_secret": Taken("secret_scan binary_files", ("its content is neither shown nor scanned",)),
    "mode_only": Taken("special_files", ("The mode changed from 100644 to 100755: now executable",)),
    "empty_new": Taken("", ("New file, empty",)),
    "rename_edit": Taken("", ("src/old.txt → src/new.txt \\+1 −1",)),
    "deleted": Taken("", ("gone.txt \\+0 −2 .* Deleted",)),
    "quoted_guard": Taken("risk paths tests_intact", (".github/workflows/déploy.yml",)),
    "caseguard": Taken("risk paths", (".GitHub/Workflows/ci.yml",)),
    "dbl_slash": Taken("risk paths tests_intact", (".github/workflows/ci.yml",)),
    "other_prefix": Taken("risk paths tests_intact", (".github/workflows/ci.yml",)),
    "symlink_new": Taken("special_files", ("Symbolic link to ../../../etc/passwd",)),
    "typechange": Taken("special_files", ("Its type changed. Symbolic link to /home/someone/.ssh/id_rsa",)),
    "submodule": Taken("special_files", ("Submodule, f12ca610dfd9 → e8a8581c36bf",)),
    "submodule_add": Taken("special_files", ("Submodule, none → e8a8581c36bf",)),
    "secret_removed": Taken("", ("1 − k = .*redacted.* 1 \\+ k = os . environ",)),
    "secret_context": Taken("", ("1 1 k = .*redacted.* 3 − c = 3 3 \\+ c = 4",)),
    "secret_added": Taken("secret_scan", ("2 \\+ k = .*redacted",)),
    "secret_allow": Taken("secret_scan", ("2 \\+ k = .*redacted.* # gitleaks:allow",)),
    "scanner_config": Taken("secret_scan", ("2 \\+ \\[ allowlist \\]",)),
    "moved": Taken("", ("2 − 2 2 \\+ two",)),
    "bidi": Taken("invisible_characters", ("U\\+202E .* U\\+2066",)),
    "zwsp": Taken("invisible_characters", ("U\\+200B",)),
}


def groups() -> list[list[str]]:
    """The cases in as few groups as may be: within one, no two speak of the same path."""
    made: list[tuple[set[str], list[str]]] = []
    for name, case in ALL.items():
        paths = {str(entry[0]).casefold() for entry in case.base} | {
            row[2].casefold() for row in case.numstat
        }
        free = next((group for group in made if not group[0] & paths), None)
        if free is None:
            made.append(free := (set(), []))
        free[0].update(paths)
        free[1].append(name)
    return [names for _, names in made]


def test_every_patch_is_expected():
    assert set(ALL) == set(REFUSED) | set(TAKEN)


@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
def test_each_patch_is_taken_or_refused_guarded_kept_and_shown(names, tmp_path, settings):
    settings.MIRROR_DIR = tmp_path / "mirrors"
    caller = executing(Remote(tmp_path / "remote.git"), names)
    viewer = Client()
    viewer.force_login(factories.person(PersonRole.OPERATOR))
    for name in names:
        answer = caller.upload("patch", ALL[name].patch)
        if name in REFUSED:
            code, said = REFUSED[name]
            assert said in problem(answer, 422, code)["detail"], name
            continue
        row = Artifact.objects.get(pk=answer.json()["id"])
        assert failing(row.facts) == TAKEN[name].failing.split(), name
        assert KEY not in answer.content.decode(), name
        assert b"".join(caller.get(f"artifacts/{row.pk}").streaming_content) == ALL[name].patch, name
        assert_shown(viewer, row, TAKEN[name].shown)
    assert Artifact.objects.filter(kind="patch").count() == len(set(names) - set(REFUSED))


def executing(remote: Remote, names: Iterable[str]) -> LeasedCaller:
    """Who holds a run whose base has the files of all these cases."""
    entries = {entry[0]: entry for name in names for entry in ALL[name].base}
    base = remote.commit(entries.values())
    holder = factories.claim(run=factories.queued_run(factories.repository(url=remote.url)))
    holder.base_commit = base
    return LeasedCaller(factories.drive(holder, RunStatus.EXECUTING))


def failing(reading: Json) -> list[str]:
    """The guards of the patch itself that do not pass, in their order."""
    policy = {**effective(()).values, "forbidden_paths": [".github/**", "infra/prod.tf", "**/*.pem"]}
    contract = {"auto_pr": True, "verifiers": [], "allowed_paths": [], "forbidden_paths": []}
    evidence = guards.Evidence(
        RunState(risk_level="low", budget={"max_cost_usd": "10"}), contract, policy, reading
    )
    results = {result.name: result.passed for result in guards.evaluate(evidence)}
    return [name for name, passed in results.items() if not passed and name not in ("verification", "judge")]


def assert_shown(viewer: Client, row: Artifact, shown: tuple[str, ...]) -> None:
    assert len(row.facts["files"]) == len(shown)
    for index, pattern in enumerate(shown):
        raw = viewer.get(reverse("patch_file", args=[row.pk, index])).content.decode()
        read = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", raw)).split())
        assert re.search(pattern, read), read[read.find("Ignore white space") :][:400]
        assert KEY not in raw
