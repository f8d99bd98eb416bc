"""Chat rooms, and all else that Apprise reaches. It is an extra, ``chat``."""

from __future__ import annotations

from typing import Final

#: What an address may not do: reach programs and files of this machine instead of a room.
LOCAL: Final = frozenset({"dbus", "gnome", "kde", "glib", "qt", "macosx", "windows", "syslog", "rsyslog"})


class ChatUnavailableError(Exception):
    """The extra is not installed, or the room did not take it."""


def problem_of(address: str) -> str:
    """Why this is no address of a room, or ""."""
    try:
        from apprise import Apprise
    except ImportError:
        return "Chat needs an extra: pip install --require-hashes -r requirements.production.lock."
    schema = address.partition("://")[0].lower()
    if schema in LOCAL:
        return f"{schema}:// is this machine, not a room."
    return "" if Apprise().add(address) else "Apprise does not know this kind of address."


def say(address: str, *, title: str, body: str) -> None:
    """Say it in the room. Raises ``ChatUnavailableError``, never with the address: it is secret."""
    try:
        from apprise import Apprise, NotifyFormat
    except ImportError:
        raise ChatUnavailableError("the extra chat is not installed") from None
    room = Apprise()
    if not room.add(address) or not room.notify(title=title, body=body, body_format=NotifyFormat.TEXT):
        raise ChatUnavailableError("the room did not take it")
