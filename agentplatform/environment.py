"""Environment variables: declared once, read by name, refused by name."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_FLAGS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: what it is called, what holds without it, what it means."""

    name: str
    default: str
    meaning: str
    required_in_production: bool = False


class Environment:
    """Reads declared variables; an empty value counts as not set.

    Reading a name that was not declared is a `KeyError`, so that the reference
    generated from the declarations is complete.
    """

    def __init__(self, variables: Iterable[Variable], values: Mapping[str, str]) -> None:
        self._variables = {variable.name: variable for variable in variables}
        self._values = values

    def text(self, name: str) -> str:
        default = self._variables[name].default
        return self._values.get(name, "").strip() or default

    def flag(self, name: str) -> bool:
        value = self.text(name).lower()
        if value not in _FLAGS:
            raise ImproperlyConfigured(f"{name} must be one of {', '.join(_FLAGS)}; it is {value!r}.")
        return _FLAGS[value]

    def number(self, name: str, *, minimum: int = 0) -> int:
        value = self.text(name)
        try:
            number = int(value)
        except ValueError:
            raise ImproperlyConfigured(f"{name} must be a whole number; it is {value!r}.") from None
        if number < minimum:
            raise ImproperlyConfigured(f"{name} must be at least {minimum}; it is {number}.")
        return number

    def items(self, name: str) -> list[str]:
        return [item.strip() for item in self.text(name).split(",") if item.strip()]

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in allowed:
            raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}; it is {value!r}.")
        return value

    def require_for_production(self) -> None:
        """Refuse to start, naming every missing variable at once."""
        missing = [
            variable.name
            for variable in self._variables.values()
            if variable.required_in_production and not self._values.get(variable.name, "").strip()
        ]
        if missing:
            raise ImproperlyConfigured(f"In production these variables must be set: {', '.join(missing)}.")


def counters_folder(data_dir: Path) -> Path:
    """Where the web processes of this machine share counters: in memory, where the system has room for it.

    They are mapped files, and whoever writes to one on a full disk is ended by the kernel.
    """
    memory = Path("/dev/shm")  # noqa: S108  the folder is private, see made_private
    if not os.access(memory, os.W_OK):
        return data_dir / "metrics" / socket.gethostname()  # a volume may be shared, process ids are not
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return memory / f"agentplatform-{os.getuid()}-{digest}"


def made_private(folder: Path) -> Path:
    """The folder, made where it is not; refused where somebody else made it first."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ImproperlyConfigured(f"{folder} belongs to somebody else; remove it, or name another folder.")
    return folder


def kept_secret(path: Path) -> str:
    """The secret kept in `path`, made there (mode 0600) when there is none yet."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(64))
        try:
            # A link never overwrites: processes that start together all read the first one's secret.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()
