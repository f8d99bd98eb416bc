"""Which provider serves a repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runs.artifacts import mirror_of
from runs.credentials import CredentialsWrong
from runs.credentials.access import RepositoryAccess
from runs.mirrors import Mirror
from runs.models import Repository
from runs.pull_requests.base import Provider, PushFailed
from runs.pull_requests.forge import Dialect, ForgeProvider
from runs.pull_requests.git import GitProvider
from runs.pull_requests.gitea import Gitea
from runs.pull_requests.github import GitHub
from runs.pull_requests.gitlab import GitLab

#: Forges by the word that a repository has for them.
DIALECTS: Final[Mapping[str, Dialect]] = {one.name: one for one in (GitHub(), GitLab(), Gitea())}


class ProviderUnknown(Exception):  # noqa: N818  named by what is missing
    """There is no adapter for the repository's provider."""


def provider_at(mirror: Mirror, access: RepositoryAccess) -> Provider:
    """The provider at this address. Raises ``ProviderUnknown``."""
    if access.provider == "git":
        return GitProvider(mirror, signing_key=access.credential.signing_key)
    if access.provider not in DIALECTS:
        known = ", ".join(("git", *DIALECTS))
        raise ProviderUnknown(f"There is no adapter for {access.provider}; known are {known}.")
    return ForgeProvider(DIALECTS[access.provider], mirror, access)


def provider_of(repository: Repository) -> Provider:
    """The provider of a repository. Raises ``ProviderUnknown``, and ``PushFailed`` for wrong credentials."""
    try:
        access = RepositoryAccess.of(repository)
    except CredentialsWrong as error:
        raise PushFailed(str(error), retryable=False, cause="access") from error
    return provider_at(mirror_of(repository), access)
