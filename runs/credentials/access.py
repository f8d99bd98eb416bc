"""How git and a forge's API are let in: a token, or one that an app asks for anew each time."""

from __future__ import annotations

import base64
import functools
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx
import jwt
from django.conf import settings

from runs.credentials import Credential, credential_for
from runs.domain.places import address_of
from runs.models import Repository

API_VERSION: Final = "2022-11-28"
TIMEOUT: Final = 30.0
#: GitHub refuses a token whose clock runs ahead, and one that lives for more than ten minutes.
_BACKDATED, _LIVES = 60, 540
#: Where the forges that everybody shares are, and where one of one's own has its API.
_SHARED: Final = {"github": "github.com", "gitlab": "gitlab.com", "gitea": "gitea.com"}
_API: Final = {
    "github": "https://{host}/api/v3", "gitlab": "https://{host}/api/v4", "gitea": "https://{host}/api/v1",
}  # fmt: skip
_GITHUB_API: Final = "https://api.github.com"


class AccessRefused(Exception):  # noqa: N818  a verdict, not an error
    """No token was to be had; ``retryable`` where asking again may help."""

    def __init__(self, why: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class ForgeAccess:
    """The way to a forge's API for one repository, or for one organisation or group.

    ``host`` is the forge's, "" for the one that everybody shares. ``owns`` is what an app's token is asked
    for: ``/repos/acme/clock``, or ``/orgs/acme``.
    """

    provider: str
    host: str
    credential: Credential
    owns: str = ""

    @property
    def api_url(self) -> str:
        """Where the API is; the credential may say otherwise."""
        # Plain git has no API; its app, where it has one, is GitHub's.
        provider = self.provider if self.provider in _API else "github"
        host = self.host or _SHARED[provider]
        known = _GITHUB_API if host == "github.com" else _API[provider].format(host=host)
        return (self.credential.api_url or known).rstrip("/")

    def token(self) -> str:
        """The token, "" where there is none. Raises ``AccessRefused``.

        An app's installation token is asked for at each call, for one repository alone where it is one that
        is accessed (docs.github.com, "Generating an installation access token for a GitHub App").
        """
        if not self.credential.app_id:
            return self.credential.token
        return _installation_token(self)

    def headers(self) -> dict[str, str]:
        """Those of every call, with a token that is good now. Raises ``AccessRefused``."""
        token = self.token()
        if self.provider == "github":
            return headers(token)
        if not token:
            return {}
        # Gitea's page on API authentication names this word; GitLab takes every kind of token as a bearer.
        return {"Authorization": f"{'token' if self.provider == 'gitea' else 'Bearer'} {token}"}


class RepositoryAccess:
    """The way into one repository: its address, and the credential that is read when it is needed."""

    def __init__(self, *, url: str, credential: Credential, provider: str = "github") -> None:
        self.url, self.credential, self.provider = url, credential, provider

    @classmethod
    def of(cls, repository: Repository) -> RepositoryAccess:
        """That of a repository's row. Raises ``CredentialsWrong``."""
        credential = credential_for(repository.name, settings.REPOSITORY_CREDENTIALS)
        return cls(url=repository.url, credential=credential, provider=repository.provider)

    @property
    def project(self) -> str:
        """``owner/name`` at the forge, "" where neither credential nor address tells."""
        return self.credential.project or address_of(self.url).project

    @property
    def forge(self) -> ForgeAccess:
        """The way to the forge's API for this repository."""
        host, owns = address_of(self.url).host, f"/repos/{self.project}"
        return ForgeAccess(self.provider, host, self.credential, owns)

    def git_environment(self) -> dict[str, str]:
        """Variables with which git logs in: never in the address, nor in an argument that ``ps`` shows.

        The header is bound to scheme and host; nothing else hears it.
        """
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not (token := self.forge.token()):
            return {}
        user = self.credential.user or "x-access-token"
        login = base64.b64encode(f"{user}:{token}".encode()).decode()
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.https://{parts.netloc.rpartition('@')[2]}/.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {login}",
        }


def app_jwt(credential: Credential, *, now: float | None = None) -> str:
    """What proves to be the app (docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App")."""
    at = int(time.time() if now is None else now)
    claims = {"iat": at - _BACKDATED, "exp": at + _LIVES, "iss": credential.app_id}
    try:
        return jwt.encode(claims, credential.private_key, algorithm="RS256")
    except (ValueError, jwt.PyJWTError) as error:
        raise AccessRefused("The app's private key is not an RSA key in PEM.", retryable=False) from error


@functools.cache
def tls() -> ssl.SSLContext:
    """What servers are trusted by; read once, for that takes longer than a call."""
    return httpx.create_ssl_context()


def headers(token: str) -> dict[str, str]:
    """Headers of a call to GitHub's API."""
    plain = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION}
    return {**plain, "Authorization": f"Bearer {token}"} if token else plain


def _installation_token(access: ForgeAccess) -> str:
    login = headers(app_jwt(access.credential))
    kind, _, rest = access.owns.strip("/").partition("/")
    only: Sequence[str] = [rest.partition("/")[2]] if kind == "repos" else []
    with httpx.Client(base_url=access.api_url, headers=login, timeout=TIMEOUT, verify=tls()) as api:
        number = access.credential.installation_id
        if not number:
            number = str(_asked(api, "GET", f"{access.owns}/installation").get("id", ""))
        body = {"repositories": only} if only else {}
        found = _asked(api, "POST", f"/app/installations/{number}/access_tokens", json=body)
    return str(found["token"])


def _asked(api: httpx.Client, method: str, path: str, json: object = None) -> Mapping[str, object]:
    try:
        answer = api.request(method, path, json=json)
    except httpx.HTTPError as error:
        raise AccessRefused(f"GitHub gave no token: {type(error).__name__}.", retryable=True) from error
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise AccessRefused(f"GitHub gave no token: it answered {answer.status_code}.", retryable=True)
    try:
        found = answer.json() if answer.is_success else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        advice = "check app_id, private_key and that the app is installed on the repository"
        raise AccessRefused(f"GitHub gave no token ({answer.status_code}): {advice}.", retryable=False)
    return found
