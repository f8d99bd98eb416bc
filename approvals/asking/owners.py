"""Who owns what a request is about: CODEOWNERS at the run's base, else the repository's owners here.

Reading git takes time: call ``find_owners`` outside requests and transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import structlog

from approvals import codeowners
from approvals.codeowners import CodeOwners, Owned
from approvals.models import ApprovalRequest, Handle, RepositoryOwner, Team
from runs.artifacts import mirror_of
from runs.domain.facts import Json
from runs.domain.guards import paths_of
from runs.domain.said import plural
from runs.domain.vocabulary import Gate
from runs.mirrors import GitFailed
from runs.models import Artifact, Person, Repository

log = structlog.get_logger(__name__)

_SECONDS: Final = 10.0


@dataclass(slots=True)
class Owners:
    """People to ask, each with why; where that was read; handles that nobody here is known by."""

    people: list[tuple[Person, str]] = field(default_factory=list)
    source: str = ""
    unknown: list[str] = field(default_factory=list)

    def to_json(self) -> Json:
        """As the request keeps it."""
        people = [{"id": person.pk, "why": why} for person, why in self.people]
        return {"source": self.source, "people": people, "unknown": self.unknown}


def kept_owners(request: ApprovalRequest) -> list[tuple[Person, str]]:
    """The owners found when it was asked. One query."""
    kept = request.owners.get("people", [])
    known = {person.pk: person for person in Person.objects.filter(pk__in=[entry["id"] for entry in kept])}
    return [(known[entry["id"]], entry["why"]) for entry in kept if entry["id"] in known]


def find_owners(request: ApprovalRequest) -> Owners:
    """Whom to ask about it. The requester for a question: nobody knows better what was meant."""
    if request.gate == Gate.QUESTION:
        return Owners([(request.task.created_by, "You asked for this task.")], "the requester")
    commit = str(request.run.state.get("base_commit") or "")
    rules, place = _rules_at(request.repository, commit)
    found = Owners(source=f"{place} at {commit[:10]}" if place else "")
    if rules:
        _add_code_owners(found, rules.owners_of(_paths(request)))
    if not found.people:
        for person, why in _repository_owners(request.repository):
            _add(found, person, why)
        found.source = "the repository's owners" if found.people else found.source
    return found


def _paths(request: ApprovalRequest) -> list[str]:
    """What the patch touches, by old and new name; before there is one, the files that the plan names."""
    state = request.run.state
    if patch := state.get("patch"):
        stored = Artifact.objects.filter(run_id=request.run_id, pk=patch["id"]).first()
        return paths_of(stored.facts if stored else None)
    plan = state.get("plan") or {}
    stored = Artifact.objects.filter(run_id=request.run_id, pk=plan.get("id", "")).first()
    files = (stored.document or {}).get("files", []) if stored else []
    return [name for name in files if isinstance(name, str) and not set(name) & set("*?[")]


def _rules_at(repository: Repository, commit: str) -> tuple[CodeOwners | None, str]:
    """The rules in force at that commit, and the file they stand in. Without them nobody waits: a repository
    that cannot be reached only means that its own owners are asked."""
    places = codeowners.places(repository.provider)
    if not commit or not places:
        return None, ""
    try:
        mirror_of(repository).ensure(commit, timeout=_SECONDS)
        return _read(repository.pk, repository.provider, commit)
    except GitFailed as error:
        log.warning("code_owners_unread", repository=repository.name, commit=commit, error=error.message)
        return None, ""


@lru_cache(maxsize=64)
def _read(repository_id: str, provider: str, commit: str) -> tuple[CodeOwners | None, str]:
    mirror = mirror_of(Repository.objects.get(pk=repository_id))
    for place in codeowners.places(provider):
        data = mirror.blob(commit, place, limit=codeowners.MAX_BYTES, timeout=_SECONDS)
        if data is not None:
            return codeowners.parse(data.decode("utf-8", "replace"), provider=provider), place
    return None, ""


# --- handles to people ------------------------------------------------------------------------------


def _add_code_owners(found: Owners, owned: Sequence[Owned]) -> None:
    known = _known(one.handle for one in owned)
    for one in owned:
        names = f"{found.source} names"
        globs = plural(len(one.patterns) - 1, "pattern") if len(one.patterns) > 1 else ""
        patterns = f"{one.patterns[0]} and {globs} more" if globs else one.patterns[0]
        meant = known.get(one.handle.casefold())
        if meant is None:
            found.unknown.append(one.handle)
        elif isinstance(meant, Team):
            for person in meant.members.filter(is_active=True).order_by("username"):
                _add(found, person, f"{names} your team {meant.name} for {patterns}.")
        else:
            _add(found, meant, f"{names} you for {patterns}.")


def _known(handles: Iterable[str]) -> dict[str, Person | Team]:
    """Handle in lower case → who is meant: as an admin said, else by address, else by the same name here.

    Whoever it is is only asked; they decide by their own roles.
    """
    wanted = {handle.casefold() for handle in handles}
    found: dict[str, Person | Team] = {}
    people = Person.objects.filter(is_active=True).order_by("-username")
    for person in people:
        for text in (f"@{person.username}".casefold(), person.email.casefold()):
            if text in wanted:
                found[text] = person
    for handle in Handle.objects.select_related("person", "team"):
        meant = handle.team or handle.person
        if handle.text.casefold() in wanted and meant:
            found[handle.text.casefold()] = meant
    return found


def _repository_owners(repository: Repository) -> Iterable[tuple[Person, str]]:
    for owner in RepositoryOwner.objects.filter(repository=repository).select_related("person", "team"):
        if owner.team is None:
            if owner.person and owner.person.is_active:
                yield owner.person, f"You are an owner of {repository.name}."
        else:
            for person in owner.team.members.filter(is_active=True).order_by("username"):
                yield person, f"Your team {owner.team.name} owns {repository.name}."


def _add(found: Owners, person: Person, why: str) -> None:
    """Once for each human being, with the first reason."""
    if person.person_key not in {known.person_key for known, _ in found.people}:
        found.people.append((person, why))


def owning_teams() -> list[tuple[str, str]]:
    """(team, repository id) of every team that owns a repository. One query."""
    rows = RepositoryOwner.objects.filter(team__isnull=False)
    return list(rows.values_list("team__name", "repository_id"))
