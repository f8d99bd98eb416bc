"""What a git address tells: the host, and the repository's path there. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

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
