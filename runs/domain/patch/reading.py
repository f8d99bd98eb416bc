"""The stored reading of a patch: all that guards and pages use later, without the bytes.

JSON-able and complete in its paths; long lists of findings are cut, and say by how many.
Keys: `files`, `paths` (every touched path, old names of renames included), `added`,
`deleted`, `secrets`, `removed_secrets`, `kept_secrets`, `invisible`, `weakenings`,
`special`, `scanner_config`, `more` (list → entries left out), `base`, `tree`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from runs.domain.patch.invisible import invisible_characters
from runs.domain.patch.model import EXECUTABLE, SUBMODULE, SYMLINK, PatchFile, shown
from runs.domain.patch.names import path_problem
from runs.domain.secrets import scan, scanner_config
from runs.domain.tests_intact import weakenings

# Findings kept per list: more than a person reads, less than a row should hold.
LIMIT = 200


@dataclass(frozen=True, slots=True)
class GitWord:
    """What git says of the patch: tree of the result, today's head, and the true modes.

    `modes`: path → (mode before, mode after), None where there is no file. `links`: path →
    target of each changed symbolic link. `applies` is None while nobody could ask git.
    """

    commit: str
    applies: bool | None = None
    tree: str | None = None
    head: str | None = None
    applies_to_head: bool | None = None
    why: str = ""
    modes: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


def patch_facts(files: Sequence[PatchFile], git: GitWord, *, key: bytes = b"") -> dict[str, Any]:
    """The reading of a patch. `key` keys the fingerprints of secrets."""
    secrets = scan(files, key=key)
    long_lists: dict[str, list[dict[str, Any]]] = {
        "secrets": [asdict(finding) for finding in secrets.added],
        "invisible": [found._asdict() for found in invisible_characters(files)],
        "weakenings": [asdict(weakening) for weakening in weakenings(files)],
        "special": [special for file in files for special in _special(file, git)],
        "scanner_config": list(scanner_config(files)),
    }
    facts = {
        "files": [_file(file, git) for file in files],
        "paths": sorted({path for file in files for path in file.touched}),
        "added": sum(file.added for file in files),
        "deleted": sum(file.deleted for file in files),
        "removed_secrets": secrets.removed,
        "kept_secrets": secrets.kept,
        **{name: found[:LIMIT] for name, found in long_lists.items()},
        "more": {n: len(found) - LIMIT for n, found in long_lists.items() if len(found) > LIMIT},
        "base": {
            "commit": git.commit,
            "applies": git.applies,
            "head": git.head,
            "applies_to_head": git.applies_to_head,
            "why": git.why,
        },
        "tree": git.tree,
    }
    stored: dict[str, Any] = _storable(facts)
    return stored


def _file(file: PatchFile, git: GitWord) -> dict[str, Any]:
    old_mode, new_mode = _modes(file, git)
    entry: dict[str, Any] = {
        "path": file.path,
        "old_path": file.old_path,
        "status": file.status,
        "old_mode": old_mode,
        "new_mode": new_mode,
        "added": file.added,
        "deleted": file.deleted,
        "binary": file.binary,
    }
    if file.binary_sizes:
        entry["binary_sizes"] = list(file.binary_sizes)
    if target := _target(file, git):
        entry["link_target"] = target
    if file.submodule:
        entry["submodule"] = list(file.submodule)
    if shown(file.path) != file.path:
        entry["path_bytes"] = file.path.encode("utf-8", "surrogateescape").hex()
    return entry


def _modes(file: PatchFile, git: GitWord) -> tuple[str | None, str | None]:
    """git's word first: a pure rename does not say its modes in the patch."""
    before = git.modes.get(file.old_path or file.path, (file.old_mode, None))[0]
    after = git.modes.get(file.path, (None, file.new_mode))[1]
    return before or file.old_mode, after


def _target(file: PatchFile, git: GitWord) -> str | None:
    return git.links.get(file.path) or file.link_target


def _special(file: PatchFile, git: GitWord) -> Iterator[dict[str, Any]]:
    old_mode, new_mode = _modes(file, git)
    path, name = file.path, file.path.rpartition("/")[2].casefold()
    if SYMLINK in (old_mode, new_mode):
        yield _link(file, new_mode, _target(file, git))
    if SUBMODULE in (old_mode, new_mode):
        before, after = file.submodule or (None, None)
        detail = f"submodule {(before or 'none')[:7]} -> {(after or 'none')[:7]}"
        yield {"path": path, "kind": "submodule", "detail": detail}
    if name in (".gitattributes", ".gitmodules"):
        yield {"path": path, "kind": name[1:], "detail": f"changes {name}"}
    if new_mode == EXECUTABLE and old_mode != EXECUTABLE:
        detail = f"mode {old_mode} -> {new_mode}" if old_mode else "new executable file"
        yield {"path": path, "kind": "executable", "detail": detail}
    if file.status == "type_changed":
        detail = f"file type {old_mode} -> {new_mode}"
        yield {"path": path, "kind": "type_changed", "detail": detail}


def _link(file: PatchFile, new_mode: str | None, target: str | None) -> dict[str, Any]:
    if new_mode != SYMLINK:
        return {"path": file.path, "kind": "symlink", "detail": "no longer a symlink"}
    return {
        "path": file.path,
        "kind": "symlink",
        "detail": f"symlink -> {target}" if target else "symlink to an unknown place",
        "outside": target is None or _leaves(file.path, target),
    }


def _leaves(path: str, target: str) -> bool:
    """Whether the link points out of the repository, or into its .git folder."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target.replace("\\", "/")))
    return place != "." and path_problem(place) is not None


def _storable(value: Any) -> Any:
    """The value with undecodable bytes and NUL written out: a database must take it."""
    if isinstance(value, str):
        return shown(value).replace("\0", "\\x00")
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value
