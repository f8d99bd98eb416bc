"""What changed in a file beside its lines: kind, mode, link, submodule, bytes, what its name hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from runs.domain.patch import PatchFile, shown
from runs.domain.patch.invisible import hidden_in
from runs.domain.patch.model import EXECUTABLE, SUBMODULE, SYMLINK
from runs.selectors.words import size

_STATUS: Final = {
    "added": "New file.",
    "deleted": "Deleted.",
    "copied": "Copied.",
    "type_changed": "Its type changed.",
}


def file_notes(file: PatchFile) -> Iterator[str]:
    """Sentences about the file; none for a plain change of its lines."""
    if file.status in _STATUS:
        empty = file.status == "added" and not (file.added or file.binary)
        yield "New file, empty." if empty else _STATUS[file.status]
    if file.status == "renamed" and not (file.added or file.deleted or file.binary):
        yield "Renamed, nothing else changed."
    if file.binary:
        before, after = file.binary_sizes or (None, None)
        sizes = " → ".join(size(count) for count in (before, after) if count is not None)
        yield f"Binary file{', ' + sizes if sizes else ''}; its content is neither shown nor scanned."
    yield from _mode_notes(file)
    if hidden := hidden_in(file.path):
        yield f"Its name holds invisible characters: {', '.join(hidden)}."
    if not all(_is_utf8(hunk.body) for hunk in file.hunks):
        yield r"Not UTF-8: bytes that are no characters are written as \xNN."


def _mode_notes(file: PatchFile) -> Iterator[str]:
    if file.link_target is not None:
        yield f"Symbolic link to {shown(file.link_target)}."
    elif SYMLINK in (file.old_mode, file.new_mode):
        yield "Symbolic link."
    if SUBMODULE in (file.old_mode, file.new_mode):
        before, after = file.submodule or (None, None)
        yield f"Submodule, {(before or 'none')[:12]} → {(after or 'none')[:12]}."
    old, new = file.old_mode, file.new_mode
    if file.status == "added" and new == EXECUTABLE:
        yield "It is executable."
    elif old and new and old != new:
        words = "now executable" if new == EXECUTABLE else "no longer executable" if old == EXECUTABLE else ""
        yield f"The mode changed from {old} to {new}{': ' + words if words else ''}."


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
