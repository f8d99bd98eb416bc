"""What a git address tells: the host, and the repository's path there. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

_ADDRESS = re.compile(
    r"(?:(?P<web>https?)://(?:[^/@]*@)?|ssh://(?:[^/@]*@)?|[^/@:]+@)"
    r"(?P<host>[^/:]+)(?::(?P<port>\d+)(?=/))?[:/]/?"
    r"(?P<project>[^/\s]+(?:/[^/\s]+?)+?)(?:\.git)?/?"
)


class Address(NamedTuple):
    """Where a repository is; all "" for an address that no forge has.

    ``host`` has a port where the web is on one; the port of ssh says nothing about that.
    """

    host: str = ""
    project: str = ""  #: ``owner/name``, or with groups between them


def address_of(url: str) -> Address:
    """Of ``https://host/owner/name.git`` or ``git@host:owner/name.git``."""
    found = _ADDRESS.fullmatch(url)
    if not found:
        return Address()
    port = f":{found['port']}" if found["web"] and found["port"] else ""
    return Address(found["host"].lower() + port, found["project"])


def place_of(url: str) -> str:
    """``host/owner/name``, the same for every way of writing one address; another url is itself."""
    host, project = address_of(url)
    return f"{host.partition(':')[0]}/{project.lower()}" if host else url.rstrip("/").removesuffix(".git")


NO_LOGIN: Final = "must hold no password or token; name the file with credentials in REPOSITORY_CREDENTIALS"


def has_login(url: str) -> bool:
    """Whether the address carries what lets somebody in: a password, or over the web a name, which is a token
    often enough."""
    try:
        parts = urlsplit(url)
        return bool(parts.password) or (bool(parts.username) and parts.scheme.startswith("http"))
    except ValueError:
        return True


def without_login(url: str) -> str:
    """The address as it may be shown; "" for one that cannot be read."""
    if not has_login(url):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
