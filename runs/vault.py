"""Where the bytes of artifacts lie, under their SHA-256: in a folder, or in a store that speaks S3.

Both use the same names (``ab/ab12…``), so that whatever copies files moves an installation from one to the
other. What is there is never changed; equal bytes are kept once.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from django.conf import settings
from django.core.files import File
from django.core.files.storage import storages

#: The entry of ``STORAGES`` that is there where artifacts lie in an object store.
OBJECTS: Final = "artifacts"
_BLOCK_BYTES: Final = 1 << 16
_NOT_FOUND: Final = 404
_NOTHING_THERE: Final = 416  # a range behind the end


class VaultAwayError(OSError):
    """The store of artifacts cannot be reached now; it passes."""


class Vault(Protocol):
    """Bytes by their digest. A digest without bytes is a ``FileNotFoundError``."""

    def keep(self, received: Path, sha256: str) -> None:
        """Keep the bytes of a file for good; the file may be gone afterwards."""

    def open(self, sha256: str) -> BinaryIO:
        """All bytes, to be read piece by piece and closed."""

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes from ``start`` to before ``end``, or to the last one."""

    def size(self, sha256: str) -> int:
        """How many bytes there are."""


def vault() -> Vault:
    """Where this installation keeps them."""
    if OBJECTS in settings.STORAGES:
        return _Objects(storages[OBJECTS])
    return _Files(Path(settings.ARTIFACT_DIR))


def _name(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}"


# --- in a folder ----------------------------------------------------------------------------------


class _Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, received: Path, sha256: str) -> None:
        """Durably: renamed when complete, so that no reader ever sees half of it."""
        place = self._place(sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        received.replace(place)
        for folder in (place.parent, place.parent.parent):
            _sync_folder(folder)

    def open(self, sha256: str) -> BinaryIO:
        return self._place(sha256).open("rb")

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> bytes:
        with self.open(sha256) as file:
            file.seek(start)
            return file.read(-1 if end is None else max(end - start, 0))

    def size(self, sha256: str) -> int:
        return self._place(sha256).stat().st_size

    def _place(self, sha256: str) -> Path:
        return self._folder / _name(sha256)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- in an object store ---------------------------------------------------------------------------


class _Objects:
    """By the storage's own bucket where Django's interface would fetch all of an object to read a part."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def keep(self, received: Path, sha256: str) -> None:
        with received.open("rb") as file, _errors():
            self._storage.save(_name(sha256), File(file))

    def open(self, sha256: str) -> BinaryIO:
        with _errors():
            return io.BufferedReader(_Body(self._object(sha256).get()["Body"]), _BLOCK_BYTES)

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> bytes:
        if end is not None and end <= start:
            return b""
        words = (
            {} if (start, end) == (0, None) else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        )
        with _errors():
            try:
                data: bytes = self._object(sha256).get(**words)["Body"].read()
            except Exception as error:
                if _status(error) == _NOTHING_THERE:
                    return b""
                raise
        return data

    def size(self, sha256: str) -> int:
        with _errors():
            size: int = self._object(sha256).content_length
        return size

    def _object(self, sha256: str) -> Any:
        location = self._storage.location.strip("/")
        return self._storage.bucket.Object("/".join(filter(None, [location, _name(sha256)])))


class _Body(io.RawIOBase):
    """An object's bytes as they arrive."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _errors():
            data = self._body.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._body.close()
        super().close()


def _status(error: Exception) -> int | None:
    answer = getattr(error, "response", None) or {}
    status: int | None = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


@contextmanager
def _errors() -> Iterator[None]:
    """What the client says becomes what files would say."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (Boto3Error, BotoCoreError, ClientError) as error:
        if _status(error) == _NOT_FOUND:
            raise FileNotFoundError(f"The store of artifacts has no such bytes: {error}") from error
        raise VaultAwayError(f"The store of artifacts is away: {error}") from error
