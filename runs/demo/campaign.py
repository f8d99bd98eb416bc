"""The demonstration's campaign: two small neighbours of its repository, and one change through all three.

It is paused as it is made: whoever resumes it sees its waves, and until then it takes no worker's time.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from runs import service
from runs.demo.repository import NAME, POLICY
from runs.domain.commands import Caller
from runs.domain.facts import Json
from runs.models import Repository

NEIGHBOURS: Final = ("metronome", "sundial")
_CAMPAIGN: Final[Json] = {
    "contract": {
        "title": "Agree on line endings",
        "instruction": "Add an .editorconfig that asks for LF and a final newline. Nothing else changes.",
        "agent": {
            "kind": "script",
            "command": r"printf 'root = true\n\n[*]\nend_of_line = lf\ninsert_final_newline = true\n'"
            " > .editorconfig",
        },
        "verifiers": [{"name": "tests", "command": "python3 -m unittest -q", "timeout_seconds": 120}],
        "allowed_paths": [".editorconfig"],
        "auto_pr": True,
        "budget": {"max_cost_usd": "1"},
        "labels": ["style"],
    },
    "repositories": [NAME, *NEIGHBOURS],
    "first_wave": 1,
    "growth": 2,
    "failure_limit_percent": 50,
    "pull_requests_per_hour": 30,
    "max_cost_usd": "3",
}


def make_campaign(remote: Path, *, by: Caller, paused_by: Caller) -> None:
    """The neighbours as copies of ``remote``, and the campaign over all three, paused."""
    for name in NEIGHBOURS:
        place = _new_place(remote, name)
        shutil.copytree(remote, place)
        service.repository_create(name=name, url=place.as_uri(), policy=POLICY, by=by)
    known = Repository.objects.filter(name__in=_CAMPAIGN["repositories"])
    made, _ = service.campaign_create(data=_CAMPAIGN, known=known, by=by)
    service.campaign_pause(campaign_id=made.pk, reason="Resume it to see its waves", by=paused_by)


def _new_place(remote: Path, name: str) -> Path:
    """A folder of its own: an earlier database in the same data folder may have left one."""
    number = 1
    while (remote.parent / f"{name}-{number}.git").exists():
        number += 1
    return remote.parent / f"{name}-{number}.git"
