"""A patch as a page shows it: unified, file by file, highlighted, with nothing hidden.

The bytes are read by the same reader that judged them. A file that is long, or stands after many
others, is shown on demand at its own address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_for_filename  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from runs.artifacts import artifact_path
from runs.domain.facts import Json, fingerprint
from runs.domain.patch import FileSpan, Hunk, Line, PatchFile, file_index, read_patch, shown
from runs.domain.patch.invisible import hidden_in
from runs.domain.patch.model import EXECUTABLE, SUBMODULE, SYMLINK
from runs.models import Artifact
from runs.selectors.words import size

#: Lines of one file, and of all files together, that a page shows unasked.
FILE_LINES: Final = 400
PAGE_LINES: Final = 2_000
PAGE_FILES: Final = 60
#: What is longer is shown without colour: highlighting takes longer than reading then.
COLOURED_LINES: Final = 3_000
COLOURED_WIDTH: Final = 1_000
WIDEST: Final = 20_000


def patch_diff(artifact: Artifact, *, risky: Collection[str] = (), unplanned: Collection[str] = ()) -> Json:
    """``{files, summary}`` for runs/_diff.html, risky files first, then unplanned. No query."""
    data = artifact_path(artifact).read_bytes()
    spans = list(enumerate(file_index(data)))
    spans.sort(key=lambda pair: (pair[1].path not in risky, pair[1].path not in unplanned))
    left, files = PAGE_LINES, []
    for position, (index, span) in enumerate(spans):
        lines = span.added + span.deleted
        fits = position < PAGE_FILES and left > 0 and lines <= FILE_LINES
        left -= min(lines, FILE_LINES) if fits else 0
        limit = FILE_LINES if fits else 0
        files.append(_file(artifact, data, index, span, limit) | _badge(span.path, risky, unplanned))
    added, deleted = sum(s.added for _, s in spans), sum(s.deleted for _, s in spans)
    count = f"{len(files):,} {'file' if len(files) == 1 else 'files'}"
    return {"files": files, "summary": f"{count}, +{added:,} −{deleted:,}"}


def patch_file(artifact: Artifact, index: int) -> Json:
    """One file of a patch, whole. Raises ``IndexError`` where the patch has no such file. No query."""
    data = artifact_path(artifact).read_bytes()
    spans = file_index(data)
    if not 0 <= index < len(spans):
        raise IndexError(index)
    return _file(artifact, data, index, spans[index], None)


def _file(artifact: Artifact, data: bytes, index: int, span: FileSpan, limit: int | None) -> Json:
    """``limit``: lines shown at most; 0 is the head alone, None is all."""
    part = data[span.start : span.end]
    digest = fingerprint(part.hex() if len(part) < 1_000_000 else [artifact.sha256, index])[:32]  # noqa: PLR2004
    file = _shown_file(part, limit)
    more = {
        "anchor": f"f{index + 1}",
        "digest": digest,
        "load_url": reverse("patch_file", args=[artifact.pk, index]) if file["truncated"] else "",
    }
    return {**file, **more}


def _badge(path: str, risky: Collection[str], unplanned: Collection[str]) -> Json:
    words = [text for text, where in (("risky path", risky), ("not in the plan", unplanned)) if path in where]
    return {"badge": {"tone": "warn", "text": ", ".join(words)}} if words else {}


@lru_cache(maxsize=256)
def _shown_file(part: bytes, limit: int | None) -> Json:
    """The file of these bytes, without its place in the patch. Callers copy it."""
    (file,) = read_patch(part)
    hunks, truncated = _hunks(file, limit)
    return {
        "path": shown(file.path),
        "old_path": shown(file.old_path) if file.old_path else "",
        "added": file.added,
        "deleted": file.deleted,
        "note": " ".join(_notes(file)),
        "hunks": hunks,
        "truncated": truncated,
    }


# --- what is not text ----------------------------------------------------------------------------


_STATUS: Final = {
    "added": "New file.",
    "deleted": "Deleted.",
    "copied": "Copied.",
    "type_changed": "Its type changed.",
}


def _notes(file: PatchFile) -> Iterator[str]:
    if file.status in _STATUS:
        yield _STATUS[file.status]
    if file.status == "renamed" and not (file.added or file.deleted or file.binary):
        yield "Renamed, nothing else changed."
    if file.binary:
        before, after = file.binary_sizes or (None, None)
        sizes = " → ".join(size(count) for count in (before, after) if count is not None)
        yield f"Binary file{', ' + sizes if sizes else ''}; its content is not shown."
    yield from _mode_notes(file)
    if hidden := hidden_in(file.path):
        yield f"Its name holds invisible characters: {', '.join(hidden)}."


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


# --- lines ---------------------------------------------------------------------------------------


def _hunks(file: PatchFile, limit: int | None) -> tuple[list[Json], bool]:
    if file.binary or limit == 0:
        return [], limit == 0 and bool(file.hunks)
    lexer = _lexer(file)
    left = limit if limit is not None else 10**9
    found: list[Json] = []
    for hunk in file.hunks:
        if left <= 0:
            return found, True
        lines = hunk.lines
        kept = lines[:left]
        left -= len(kept)
        found.append({"header": _header(hunk), "lines": list(_lines(kept, lexer))})
        if len(kept) < len(lines):
            return found, True
    return found, False


def _header(hunk: Hunk) -> str:
    return f"@@ -{hunk.old_start} +{hunk.new_start} @@ {shown(hunk.header)}".rstrip()


_KIND: Final = {"context": "ctx", "added": "add", "deleted": "del"}


def _lines(lines: Collection[Line], lexer: Lexer | None) -> Iterator[Json]:
    new = iter(_coloured([line.text for line in lines if line.kind != "deleted"], lexer))
    old = iter(_coloured([line.text for line in lines if line.kind != "added"], lexer))
    for line in lines:
        html = next(old) if line.kind == "deleted" else next(new)
        if line.kind == "context":
            next(old)
        yield {"kind": _KIND[line.kind], "old": line.old_no, "new": line.new_no, "html": html}
        if not line.ends:
            yield {"kind": "note", "old": None, "new": None, "html": "No newline at end of file"}


def _lexer(file: PatchFile) -> Lexer | None:
    if file.added + file.deleted > COLOURED_LINES:
        return None
    name = PurePosixPath(file.path)
    return _lexer_for(name.name if name.suffix in ("", ".txt") else f"x{name.suffix}")


@lru_cache(maxsize=512)
def _lexer_for(name: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _coloured(texts: list[str], lexer: Lexer | None) -> Iterable[SafeString]:
    """Each line as markup; without a lexer, or where it does not keep the lines, escaped and plain."""
    plain = [shown(text) if len(text) <= WIDEST else shown(text[:WIDEST]) + " …" for text in texts]
    whole = "\n".join(plain)
    if lexer is None or not texts or max(map(len, plain)) > COLOURED_WIDTH or "\r" in whole:
        return [marked(str(escape(text)), text) for text in plain]
    coloured = highlight(whole, lexer, HtmlFormatter(nowrap=True)).split("\n")
    if len(coloured) == len(plain) + 1 and not coloured[-1]:  # the formatter ends the last line
        coloured.pop()
    if len(coloured) != len(plain):
        return [marked(str(escape(text)), text) for text in plain]
    return [marked(html, text) for html, text in zip(coloured, plain, strict=True)]


def marked(html: str, text: str) -> SafeString:
    """Invisible characters become visible; they never stand inside a tag, so each can be replaced."""
    for codepoint in dict.fromkeys(hidden_in(text)):
        html = html.replace(
            chr(int(codepoint.removeprefix("U+"), base=16)), f'<span class="mark-char">{codepoint}</span>'
        )
    return mark_safe(html)  # noqa: S308  escaped above, or by the highlighter
