"""Secrets of repositories: read from a file or the environment when they are used, kept nowhere.

``REPOSITORY_CREDENTIALS`` names a TOML file with tables by repositories' names, by patterns of names such as
``"acme/*"``, and ``"*"`` for all others. A secret is given as it is, as ``…_file`` (a path) or as ``…_env``
(a variable's name).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

#: Secrets, each of which may be given in three ways.
SECRETS: Final = ("token", "private_key", "webhook_secret")
PLAIN: Final = ("user", "app_id", "installation_id", "signing_key_file", "api_url", "project")
EVERY_OTHER: Final = "*"


class CredentialsWrong(Exception):  # noqa: N818  named by what is wrong
    """The file cannot be used; the message names file, table and field, and never a secret."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What one repository needs. Secrets are left out of its repr."""

    token: str = field(default="", repr=False)
    user: str = ""  #: the name that goes with the token over https
    app_id: str = ""
    installation_id: str = ""
    private_key: str = field(default="", repr=False)  #: of the app, PEM
    signing_key: Path | None = None  #: an SSH key with which commits are signed
    webhook_secret: str = field(default="", repr=False)
    api_url: str = ""  #: of the forge, where its address does not follow from the repository's
    project: str = ""  #: ``owner/name`` at the forge, where the repository's address does not tell


def credential_for(name: str, source: str | Path) -> Credential:
    """The credential of the repository ``name``; an empty one where ``source`` is "" or names none.

    That of an organisation has the name with a slash at its end, which ``"acme/*"`` fits as well.

    Raises ``CredentialsWrong``.
    """
    if not source:
        return Credential()
    tables = _read(Path(source))
    chosen = _chosen(tables, name)
    return _credential(tables.get(chosen, {}), where=f"{source}, [{chosen}]")


def _chosen(tables: Iterable[str], name: str) -> str:
    """The table of this very name, else the first pattern that fits, else that of all others."""
    known = list(tables)
    if name in known:
        return name
    fits = (one for one in known if one != EVERY_OTHER and fnmatchcase(name, one))
    return next(fits, EVERY_OTHER)


def check_credentials(source: str | Path) -> None:
    """Read every table. Raises ``CredentialsWrong`` at the first that cannot be used."""
    if source:
        for name in _read(Path(source)):
            credential_for(name, source)


def _read(path: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise CredentialsWrong(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # its message may quote a line with a secret in it
        raise CredentialsWrong(f"{path} is not TOML in UTF-8.") from error
    if stray := [name for name, table in tables.items() if not isinstance(table, dict)]:
        raise CredentialsWrong(f"{path}: {stray[0]} stands outside of a repository's table.")
    return tables


def _credential(table: Mapping[str, Any], *, where: str) -> Credential:
    known = {*PLAIN, *SECRETS, *(f"{name}{form}" for name in SECRETS for form in ("_file", "_env"))}
    if unknown := sorted(set(table) - known):
        raise CredentialsWrong(f"{where}: {unknown[0]} is not known; known are {', '.join(sorted(known))}.")
    secrets = {name: _secret(table, name, where=where) for name in SECRETS}
    plain = {name: str(table.get(name, "")) for name in PLAIN}
    signing = plain.pop("signing_key_file")
    found = Credential(**secrets, **plain, signing_key=Path(signing) if signing else None)
    if bool(found.app_id) != bool(found.private_key):
        raise CredentialsWrong(f"{where}: an app needs both app_id and private_key.")
    if found.signing_key and not found.signing_key.is_file():
        raise CredentialsWrong(f"{where}: there is no signing key {found.signing_key}.")
    return found


def _secret(table: Mapping[str, Any], name: str, *, where: str) -> str:
    given = [form for form in (name, f"{name}_file", f"{name}_env") if form in table]
    if not given:
        return ""
    if len(given) > 1:
        raise CredentialsWrong(f"{where}: give one of {' and '.join(given)}.")
    value = str(table[given[0]])
    if given[0].endswith("_file"):
        try:
            value = Path(value).read_text()
        except (OSError, ValueError) as error:
            raise CredentialsWrong(f"{where}: the file of {given[0]} cannot be read.") from error
    elif given[0].endswith("_env"):
        value = os.environ.get(value, "")
    if not (value := value.strip()):
        raise CredentialsWrong(f"{where}: {given[0]} gives nothing.")
    return value
