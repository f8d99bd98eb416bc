"""A patch as a page shows it: file by file, risky ones first, highlighted, with nothing hidden.

The bytes are read by the same reader that judged them. Of a long file, or one that stands after many
others, a part is shown and the rest on demand at an address of its own; so one answer stays small
however large the patch is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from runs.artifacts import artifact_read
from runs.domain.facts import Json
from runs.domain.patch import PatchFile, read_patch, read_sections, shown
from runs.domain.tests_intact import is_test
from runs.models import Artifact
from runs.selectors.diff.brief import brief_file
from runs.selectors.diff.markup import WIDEST, visible_name
from runs.selectors.diff.notes import file_notes
from runs.selectors.diff.rows import MOST_CHARACTERS, USUAL, Cut, Look, cut_rows, gap_ways

#: Lines of one file, and of all files together, that a page shows unasked.
FILE_LINES: Final = 400
PAGE_LINES: Final = 2_000
PAGE_FILES: Final = 60
#: Lines of one file that one answer shows when it is asked for.
MORE_LINES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Concern:
    """Paths that a reviewer should read first, each kind in its place, and digests seen before."""

    risky: Collection[str] = ()
    unplanned: Collection[str] = ()
    unchanged: Collection[str] = field(default=frozenset())  #: digests that an earlier request showed

    def rank(self, path: str) -> tuple[bool, bool, bool]:
        """Risky paths first, then what no plan named, then tests: they say what is meant to hold."""
        return path not in self.risky, path not in self.unplanned, not is_test(path)

    def badge(self, head: Head) -> Json:
        """What is said beside the file's name."""
        loud = [("risky path", self.risky), ("not in the plan", self.unplanned)]
        words = [text for text, paths in loud if head.path in paths]
        if words:
            return {"badge": {"tone": "warn", "text": ", ".join(words)}}
        return {"badge": {"tone": "quiet", "text": "test"}} if is_test(head.path) else {}


#: No path is of concern.
PLAIN: Final = Concern()
_NOTHING: Final[Mapping[str, Sequence[Json]]] = {}


@dataclass(frozen=True, slots=True)
class Head:
    """One file of a patch without its lines; ``digest`` changes with the file's part of the patch."""

    index: int
    path: str
    old_path: str
    name: str  #: the path as plain text
    seen: str  #: the path as markup, and the one before
    old_seen: str
    status: str
    added: int
    deleted: int
    note: str
    is_text: bool
    is_short: bool  #: a page may show it whole unasked
    is_wide: bool  #: one of its lines is longer than a page shows
    digest: str
    start: int
    end: int


def patch_diff(
    artifact: Artifact,
    *,
    concern: Concern = PLAIN,
    look: Look = USUAL,
    remarks: bool = False,
    begun: Mapping[str, Sequence[Json]] = _NOTHING,
) -> Json:
    """``{files, summary, unread}`` for runs/_diff.html. ``unread``: files not shown whole. No query.

    ``remarks``: what is loaded later may be commented on, too. ``begun``: by a file's name, comments on its
    lines that stand in its forms; such a file is shown. Raises ``OSError`` or ``PatchRefused``
    where the bytes cannot be read.
    """
    files, heads, below = [], patch_heads(artifact), _files_url(artifact)
    for head, fits in _placed(heads, concern):
        written = begun.get(head.name, ())
        # Where a line is too long to be shown here, the file is read at its own address: there it is whole.
        unasked = fits and not head.is_wide
        address, limit = f"{below}{head.index}/", FILE_LINES if unasked or written else 0
        file = _file(artifact, head, look, address=address, limit=limit, remarks=remarks)
        file |= concern.badge(head) | {"known": head.digest in concern.unchanged, "begun": written}
        if file["truncated"] and not file["hunks"]:
            file["brief"] = brief_file(file)
        files.append(file)
    added, deleted = sum(head.added for head in heads), sum(head.deleted for head in heads)
    count = f"{len(files):,} {'file' if len(files) == 1 else 'files'}"
    unread = len(unread_files(artifact, concern))
    return {"files": files, "summary": f"{count}, +{added:,} −{deleted:,}", "unread": unread}


def unread_files(artifact: Artifact, concern: Concern) -> frozenset[str]:
    """Digests of the files that ``patch_diff`` does not show whole. No query."""
    placed = _placed(patch_heads(artifact), concern)
    return frozenset(head.digest for head, fits in placed if head.is_text and not (fits and head.is_short))


def _placed(heads: Sequence[Head], concern: Concern) -> Iterator[tuple[Head, bool]]:
    """The files in the order of concern, each with whether its lines fit on the page."""
    left = PAGE_LINES
    for position, head in enumerate(sorted(heads, key=lambda head: concern.rank(head.path))):
        fits = position < PAGE_FILES and left > 0
        left -= min(head.added + head.deleted, FILE_LINES) if fits else 0
        yield head, fits


def patch_file(artifact: Artifact, index: int, *, look: Look, start: int = 0, remarks: bool = False) -> Json:
    """One file of a patch from one of its lines on. ``IndexError`` where there is no such file. No query."""
    heads = patch_heads(artifact)
    if not 0 <= index < len(heads):
        raise IndexError(index)
    address, whole = f"{_files_url(artifact)}{index}/", replace(look, whole=True)
    return _file(
        artifact, heads[index], whole, address=address, start=start, limit=MORE_LINES, remarks=remarks
    )


def read_file(artifact: Artifact, path: str) -> PatchFile:
    """One file of a patch, by its path as pages show it. ``LookupError`` where there is none."""
    for head in patch_heads(artifact):
        if head.name == path:
            return read_patch(_bytes(artifact, head))[0]
    raise LookupError(path)


def patch_heads(artifact: Artifact) -> tuple[Head, ...]:
    """The files of a patch in its own order, without their lines."""
    return _heads(_Patch(artifact, artifact.sha256))


@dataclass(frozen=True, slots=True)
class _Patch:
    """A patch as the key of a cache: equal to every other artifact of the same bytes."""

    artifact: Artifact = field(compare=False)
    sha256: str


@lru_cache(maxsize=32)
def _heads(patch: _Patch) -> tuple[Head, ...]:
    data = artifact_read(patch.artifact)
    return tuple(
        Head(
            index,
            file.path,
            file.old_path or "",
            shown(file.path),
            visible_name(file.path),
            visible_name(file.old_path or ""),
            file.status,
            file.added,
            file.deleted,
            " ".join(file_notes(file)),
            bool(file.hunks) and not file.binary,
            _is_short(file),
            _is_wide(file),
            hashlib.sha256(data[start:end]).hexdigest()[:32],
            start,
            end,
        )
        for index, (file, start, end) in enumerate(read_sections(data))
    )


def _is_short(file: PatchFile) -> bool:
    lines, size = sum(map(len, file.hunks)), sum(len(hunk.body) for hunk in file.hunks)
    return lines <= FILE_LINES and size <= MOST_CHARACTERS and not _is_wide(file)


def _is_wide(file: PatchFile) -> bool:
    lines = (line for hunk in file.hunks for line in hunk.body.split(b"\n") if len(line) > WIDEST)
    return any(len(line.decode(errors="replace")) > WIDEST + 1 for line in lines)  # its sign stands before it


def _file(
    artifact: Artifact,
    head: Head,
    look: Look,
    *,
    address: str,
    limit: int,
    start: int = 0,
    remarks: bool = False,
) -> Json:
    """``limit``: lines shown at most; 0 is the head alone."""
    cut = _lines(artifact, head, look, start, limit) if limit and head.is_text else Cut()
    rest = cut.next if limit else 0 if head.is_text else None
    around = f"{address}around/"
    ends = rest is None and cut.hunks and head.status not in ("added", "deleted")
    return {
        "path": head.seen,
        "old_path": head.old_seen,
        "name": head.name,
        "added": head.added,
        "deleted": head.deleted,
        "note": head.note,
        "anchor": f"f{head.index + 1}",
        "index": head.index,
        "digest": head.digest,
        "hunks": [{**hunk, "gap": gap_ways(around, hunk["gap"], look)} for hunk in cut.hunks],
        "tail": gap_ways(around, _tail(cut), look) if ends else None,
        "split": look.split,
        "spaces": cut.spaces,
        "truncated": rest is not None,
        "opened": rest is None and (limit > FILE_LINES or not head.is_short),
        "load_url": _more_url(address, look, rest, remarks=remarks),
        "rest": _rest(rest, head) if rest is not None else "",
    }


def _tail(cut: Cut) -> Json:
    old, new = cut.after
    return {"first": old, "last": None, "shift": new - old}


def _files_url(artifact: Artifact) -> str:
    """Below which each file has its address; to reverse one for each of thousands takes long."""
    return reverse("patch_file", args=[artifact.pk, 0]).removesuffix("0/")


def _more_url(address: str, look: Look, rest: int | None, *, remarks: bool) -> str:
    if rest is None:
        return ""
    asked = {"from": rest or "", "remarks": "1" if remarks else ""}
    query = "&".join(filter(None, (look.query, urlencode({k: v for k, v in asked.items() if v}))))
    return f"{address}?{query}" if query else address


def _rest(start: int, head: Head) -> str:
    total = head.added + head.deleted
    if start:
        return f"The first {start:,} lines are shown, the rest is not yet."
    return f"{total:,} changed {'line' if total == 1 else 'lines'}, not shown yet."


def _lines(artifact: Artifact, head: Head, look: Look, start: int, limit: int) -> Cut:
    part = _bytes(artifact, head)
    if limit > FILE_LINES or start:
        return _cut(part, look, start, limit)
    return _kept(part, look, start, limit)


def _bytes(artifact: Artifact, head: Head) -> bytes:
    return artifact_read(artifact, head.start, head.end)


def _cut(part: bytes, look: Look, start: int, limit: int) -> Cut:
    (file,) = read_patch(part)
    return cut_rows(file, look, start=start, limit=limit)


#: Only what a page shows unasked is kept: it is asked for by every reviewer, and it is small.
_kept = lru_cache(maxsize=128)(_cut)
