"""The hash chain of a log and the key that lies outside the database (lifecycle contract, 4.3 rule 7)."""

from __future__ import annotations

import hashlib
import hmac

from django.conf import settings

from runs.domain.facts import Event, chain_hash


def hash_of(event: Event) -> str:
    """The event's link: SHA-256 over the link before it and itself."""
    return chain_hash(event)


def mac(stream_id: str, sequence: int, head: str) -> str:
    """The keyed head: whoever edits events without the key cannot make a new one."""
    message = f"{stream_id}:{sequence}:{head}".encode()
    return hmac.new(settings.EVENT_CHAIN_KEY.encode(), message, hashlib.sha256).hexdigest()


def lease_token(lease_id: str) -> str:
    """The secret of a lease, derived from its id by a server key; it is never stored."""
    digest = hmac.new(settings.LEASE_TOKEN_KEY.encode(), lease_id.encode(), hashlib.sha256).hexdigest()
    return f"{lease_id}.{digest}"


def is_token_of(lease_id: str, token: str) -> bool:
    """Whether ``token`` is that lease's, in constant time."""
    return hmac.compare_digest(lease_token(lease_id).encode(), token.encode())
