"""What an organisation or group of a forge holds: all its repositories, archived ones too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from runs.credentials.access import ForgeAccess
from runs.domain.importing import Listed
from runs.domain.places import place_of
from runs.forges.rest import ForgeFailed, Rest

Json = Mapping[str, Any]
#: Of 100 or 50 each: a list that is longer is refused, for half of one would look like what it is not.
MAX_PAGES: Final = 200


def list_organisation(access: ForgeAccess, path: str) -> list[Listed]:
    """Every repository of the organisation or group ``path``, or none at all: raises ``ForgeFailed``."""
    with Rest(access) as api:
        found = [one for page in _LISTS[access.provider](api, path) for one in page]
    return [_READ[access.provider](one) for one in found]


def _github(api: Rest, path: str) -> Iterator[list[Json]]:
    """ "List organization repositories"; of a person "List repositories for a user" (rest/repos/repos)."""
    try:
        yield from _pages(api, f"/orgs/{quote(path)}/repos", type="all")
    except ForgeFailed as failed:
        if failed.cause != "access":
            raise
        yield from _pages(api, f"/users/{quote(path)}/repos", type="owner")


def _gitlab(api: Rest, path: str) -> Iterator[list[Json]]:
    """ "List all projects in a group" (api/groups): with its subgroups, without what others share with it."""
    where = f"/groups/{quote(path, safe='')}/projects"
    yield from _pages(api, where, include_subgroups="true", with_shared="false", order_by="id", sort="asc")


def _gitea(api: Rest, path: str) -> Iterator[list[Json]]:
    """ "List an organization's repos"; of a person "List the repos owned by the given user"."""
    try:
        yield from _pages(api, f"/orgs/{quote(path)}/repos")
    except ForgeFailed as failed:
        if failed.cause != "access":
            raise
        yield from _pages(api, f"/users/{quote(path)}/repos")


def _pages(api: Rest, where: str, **params: str | int) -> Iterator[list[Json]]:
    for number, page in enumerate(api.pages(where, most=MAX_PAGES + 1, **params)):
        if number == MAX_PAGES:
            why = f"{api.name} lists more than {MAX_PAGES} pages there; name a smaller group"
            raise ForgeFailed(why, retryable=False, cause="rejected")
        yield page


def _of_github(one: Json) -> Listed:
    return _listed("github", one["full_name"], one["clone_url"], one)


def _of_gitea(one: Json) -> Listed:
    return _listed("gitea", one["full_name"], one["clone_url"], one)


def _of_gitlab(one: Json) -> Listed:
    return _listed("gitlab", one["path_with_namespace"], one["http_url_to_repo"], one)


def _listed(provider: str, name: str, url: str, one: Json) -> Listed:
    place = place_of(url)
    return Listed(
        name=name,
        url=url,
        provider=provider,
        key=f"{place.partition('/')[0]}:{one['id']}",
        place=place,
        base_branch=one.get("default_branch") or "",
        archived=bool(one.get("archived")),
    )


_LISTS: Final[dict[str, Callable[[Rest, str], Iterator[list[Json]]]]] = {
    "github": _github, "gitlab": _gitlab, "gitea": _gitea,
}  # fmt: skip
_READ: Final[dict[str, Callable[[Json], Listed]]] = {
    "github": _of_github, "gitlab": _of_gitlab, "gitea": _of_gitea,
}  # fmt: skip
