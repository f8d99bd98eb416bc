"""Which provider serves a repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from runs.artifacts import mirror_of
from runs.credentials import CredentialsWrong
from runs.credentials.access import RepositoryAccess
from runs.mirrors import Mirror
from runs.models import Repository
from runs.pull_requests.base import Provider, PushFailed
from runs.pull_requests.git import GitProvider
from runs.pull_requests.github import GitHubProvider


class ProviderUnknown(Exception):  # noqa: N818  named by what is missing
    """There is no adapter for the repository's provider."""


def _git(mirror: Mirror, access: RepositoryAccess) -> Provider:
    return GitProvider(mirror, signing_key=access.credential.signing_key)


PROVIDERS: Final[Mapping[str, Callable[[Mirror, RepositoryAccess], Provider]]] = {
    "git": _git,
    "github": GitHubProvider,
}


def provider_of(repository: Repository) -> Provider:
    """The provider of a repository. Raises ``ProviderUnknown``, and ``PushFailed`` for wrong credentials."""
    make = PROVIDERS.get(repository.provider)
    if make is None:
        raise ProviderUnknown(
            f"There is no adapter for {repository.provider}; set the repository's provider to git."
        )
    try:
        access = RepositoryAccess.of(repository)
    except CredentialsWrong as error:
        raise PushFailed(str(error), retryable=False, cause="access") from error
    return make(mirror_of(repository), access)
