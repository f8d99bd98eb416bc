"""The folder broker of one machine, made safe against reading a message that is still being written.

Kombu's own opens the file under its final name and fills it afterwards; a reader in between takes
an empty message, cannot parse it, and the Celery process ends.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from time import monotonic_ns
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """A channel whose messages appear whole or not at all."""

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        name = f"{monotonic_ns():020d}_{uuid.uuid4()}"
        unfinished = folder / f"{name}.unfinished"
        try:
            unfinished.write_text(dumps(payload))  # type: ignore[no-untyped-call]
            os.replace(unfinished, folder / f"{name}.{queue}.msg")  # noqa: PTH105  atomic, and said so
        except OSError as error:
            raise ChannelError(f"Cannot add a message to {folder}") from error


class Transport(filesystem.Transport):
    """`filesystem://`, with the channel above."""

    Channel = Channel


def use() -> None:
    """Let the address `filesystem://` mean this transport in this process."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
