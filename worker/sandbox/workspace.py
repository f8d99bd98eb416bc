"""Files of a checkout by relative name, whatever the agent planted there.

Every folder on the way is opened below the one before it and never through a link, so neither `..`
nor a symlink, nor a folder swapped for a link between two looks, leads outside. What is written is
written aside and renamed: a link in the file's place is replaced and not followed.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LARGEST_FILE_BYTES = 4 << 20
MOST_LISTED = 1_000


class NotInWorkspace(Exception):  # noqa: N818  named by what happened
    """The path is no file or folder that may be touched; the message says why."""


class Workspace:
    """The folder `root` and everything really in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> bytes:
        """A whole regular file of up to 4 MiB. Raises NotInWorkspace."""
        with self._parent(path) as (folder, name):
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            except OSError as error:
                raise NotInWorkspace(_why(path, error)) from error
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                os.close(descriptor)
                raise NotInWorkspace(f"{path} is no regular file")
            with os.fdopen(descriptor, "rb") as stream:
                if found.st_size > LARGEST_FILE_BYTES:
                    raise NotInWorkspace(f"{path} has {found.st_size} bytes, more than {LARGEST_FILE_BYTES}")
                return stream.read(LARGEST_FILE_BYTES)

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file; folders on the way are made, its mode is kept. Raises NotInWorkspace."""
        if len(data) > LARGEST_FILE_BYTES:
            raise NotInWorkspace(f"{len(data)} bytes are more than the {LARGEST_FILE_BYTES} of one file")
        with self._parent(path, make=True) as (folder, name):
            mode = _mode_of(folder, name, path)
            aside = f".{uuid.uuid4().hex}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            try:
                with os.fdopen(os.open(aside, flags, mode, dir_fd=folder), "wb") as stream:
                    os.fchmod(stream.fileno(), mode)
                    stream.write(data)
                os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(aside, dir_fd=folder)
                raise NotInWorkspace(_why(path, error)) from error

    def names(self, path: str = "") -> list[str]:
        """Relative names of the files below a folder, links by their own name, sorted; at most 1,001."""
        found: list[str] = []
        with self._folder(path) as descriptor:
            for where, folders, files, _ in os.fwalk(".", dir_fd=descriptor, follow_symlinks=False):
                folders[:] = sorted(name for name in folders if name != ".git")
                prefix = where.removeprefix(".").removeprefix("/")
                found += sorted("/".join(filter(None, (path.strip("/"), prefix, name))) for name in files)
                if len(found) > MOST_LISTED:
                    break
        return found[: MOST_LISTED + 1]

    def check(self, path: str) -> None:
        """Raises NotInWorkspace unless the path is a file or folder that is really inside."""
        if not path.strip("/."):
            return
        with self._parent(path) as (folder, name):
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                raise NotInWorkspace(_why(path, error)) from error
            if stat.S_ISLNK(found.st_mode):
                raise NotInWorkspace(f"{path} is a link")

    @contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        if not path.strip("/."):
            descriptor = _open_folder(self.root)
        else:
            with self._parent(path) as (folder, name):
                descriptor = _below(folder, name, path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The opened folder that holds the path's last name, and that name."""
        *folders, name = parts_of(path)
        descriptor = _open_folder(self.root)
        try:
            for part in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                below = _below(descriptor, part, path)
                os.close(descriptor)
                descriptor = below
            yield descriptor, name
        finally:
            os.close(descriptor)


def parts_of(path: str) -> list[str]:
    """The names of a relative path. Raises NotInWorkspace for what cannot be inside."""
    if "\0" in path or path.startswith("/"):
        raise NotInWorkspace(f"{path!r} is no path relative to the checkout")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise NotInWorkspace("a path of a file is needed")
    if ".." in parts:
        raise NotInWorkspace(f"{path} leads upwards: name files from the root of the checkout")
    if any(part.lower() == ".git" for part in parts):
        raise NotInWorkspace(f"{path} is git's own")
    return parts


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _below(folder: int, name: str, path: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        raise NotInWorkspace(_why(path, error)) from error


def _mode_of(folder: int, name: str, path: str) -> int:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    except OSError as error:
        raise NotInWorkspace(_why(path, error)) from error
    if stat.S_ISDIR(found.st_mode):
        raise NotInWorkspace(f"{path} is a folder")
    return stat.S_IMODE(found.st_mode) & 0o777 if stat.S_ISREG(found.st_mode) else 0o644


def _why(path: str, error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return f"{path} leads through a link, or through a file as if it were a folder"
    return f"{path}: {(error.strerror or 'cannot be opened').lower()}"
