"""Where demonstration mode may be on: on the machine that it runs on, and nowhere else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

_NAME: Final = "localhost"


def is_loopback(host: str) -> bool:
    """Whether a host or address, without a port, can only mean this machine: ``localhost``, 127.0.0.0/8, ::1.

    A wildcard such as ``*`` or ``.localhost`` means others too.
    """
    if host.lower() == _NAME:
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def why_refused(*, production: bool, allowed_hosts: Iterable[str], public_url: str) -> str:
    """Why demonstration mode must stay off with such settings, as one sentence; empty where it may be on.

    Whoever reaches a demonstration signs in by one click, so nobody from elsewhere may reach it.
    """
    if production:
        return "Demonstration data is refused in production."
    public = [host for host in allowed_hosts if not is_loopback(host)]
    if public:
        names = ", ".join(public)
        return f"Demonstration mode is refused while ALLOWED_HOSTS names more than this machine: {names}."
    if public_url and not is_loopback(urlsplit(public_url).hostname or ""):
        return f"Demonstration mode is refused at a public address: AGENTPLATFORM_URL is {public_url}."
    return ""
