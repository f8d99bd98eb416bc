"""Connections that reach the outside only: every address that a name stands for is looked at, and the one
that was looked at is the one that is connected to, so that a name cannot change its mind in between.

No redirects, no proxies, one time limit over the whole exchange.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import httpcore
from django.conf import settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SECONDS: Final = 10.0
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class AddressRefusedError(Exception):
    """The address leads inside this network, or is none."""


def allowed_networks() -> list[Network]:
    """Inside networks that an admin named as fit for webhooks."""
    return [ipaddress.ip_network(text) for text in settings.WEBHOOK_NETWORKS]


def url_problem(url: str) -> str:
    """Why an admin may not save this address, or "". Its name is looked up again at every connection."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "This is not an address."
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        return "Leave user and password out: a webhook is signed, and addresses are shown."
    if parts.scheme not in {"https", "http"} or not parts.hostname or port == 0 or parts.fragment:
        return "Give an https:// address, without a fragment."
    if any(c.isspace() or not c.isprintable() for c in url) or not url.isascii():
        return "Use ASCII without blanks; percent-encode the rest."
    return _literal_problem(parts)


def _literal_problem(parts: SplitResult) -> str:
    try:
        found: Address | None = ipaddress.ip_address((parts.hostname or "").strip("[]"))
    except ValueError:
        found = None
    if found is not None and not is_fit(found):
        return f"{found} lies inside; only networks in WEBHOOK_NETWORKS may be reached."
    named_inside = (parts.hostname or "").lower().rstrip(".").rpartition(".")[2] in {"localhost", "internal"}
    if found is None and named_inside and not allowed_networks():
        return f"{parts.hostname} lies inside; only networks in WEBHOOK_NETWORKS may be reached."
    if parts.scheme == "http" and not allowed_networks():
        return "Use https://; plain http is for networks in WEBHOOK_NETWORKS only."
    return ""


def is_fit(address: Address) -> bool:
    """Whether a webhook may go there: to the outside, or to a network that an admin named."""
    return all(_fits(one) for one in _meanings(address))


def _fits(address: Address) -> bool:
    named = any(address.version == net.version and address in net for net in allowed_networks())
    return named or (address.is_global and not address.is_multicast)


def _meanings(address: Address) -> list[Address]:
    """The address, and those that it stands for by translation: each leads somewhere of its own."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    found: list[Address] = [address]
    if address.sixtofour:
        found.append(address.sixtofour)
    if address.teredo:
        found += address.teredo
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def post(url: str, *, content: bytes, headers: dict[str, str], seconds: float = SECONDS) -> tuple[int, str]:
    """POST it; status and Retry-After. Raises ``AddressRefusedError``, httpcore errors, OSError.

    The answer's body is not read: nobody needs it, and it could be endless.
    """
    secure = url.lower().startswith("https:")
    context = ssl.create_default_context() if secure else None  # slow: not in the receiver's time
    backend = _Guarded(monotonic() + seconds, secure=secure)
    limits = {"connect": seconds, "read": seconds, "write": seconds, "pool": seconds}
    with (
        httpcore.ConnectionPool(ssl_context=context, network_backend=backend) as pool,
        pool.stream(
            "POST", url, headers=list(headers.items()), content=content, extensions={"timeout": limits}
        ) as answer,
    ):
        found = [value.decode("latin-1") for name, value in answer.headers if name.lower() == b"retry-after"]
        return answer.status, found[0] if found else ""


class _Guarded(httpcore.SyncBackend):
    """Looks a name up once, refuses what lies inside, connects to what it looked at."""

    def __init__(self, deadline: float, *, secure: bool) -> None:
        super().__init__()
        self._deadline, self._secure = deadline, secure

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """As the base class, but only to an address that was found fit."""
        addresses = _looked_up(host, port)
        for address in addresses:
            if not is_fit(address):
                raise AddressRefusedError(f"{host} leads to {address}, which lies inside.")
        if not self._secure and not all(_is_named(address) for address in addresses):
            raise AddressRefusedError("Plain http is for networks in WEBHOOK_NETWORKS only.")
        left = _left(self._deadline)
        stream = super().connect_tcp(str(addresses[0]), port, left, local_address, socket_options)
        return _Timed(stream, self._deadline)


def _is_named(address: Address) -> bool:
    return any(address.version == net.version and address in net for net in allowed_networks())


def _looked_up(host: str, port: int) -> Sequence[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses:
        raise AddressRefusedError(f"{host} has no address.")
    return addresses


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("It took too long.")
    return left


class _Timed(httpcore.NetworkStream):
    """A stream with one time limit over all of it: a drop every few seconds keeps nobody waiting for ever."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """At most this many bytes, within what is left of the time."""
        return self._stream.read(max_bytes, _left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of it, within what is left of the time."""
        self._stream.write(buffer, _left(self._deadline))

    def close(self) -> None:
        """Close it."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The certificate must be that of the name, though the connection goes to an address."""
        secure = self._stream.start_tls(ssl_context, server_hostname, _left(self._deadline))
        return _Timed(secure, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """What the pool asks about the socket."""
        return self._stream.get_extra_info(info)
