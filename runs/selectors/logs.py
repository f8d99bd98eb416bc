"""Output of one step as a page shows it: its end, or where a word stands in it; never all of it.

However long the log or a line of it is, a page reads and sends a bounded part and says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from runs.artifacts import artifact_read
from runs.domain.errors import NotFound
from runs.domain.facts import Json
from runs.domain.said import short
from runs.domain.secrets import mask_lines
from runs.domain.terminal import pieces, plain
from runs.domain.vocabulary import StepState
from runs.livelogs import livelog_bytes, livelog_readable
from runs.models import Artifact, LiveLog, Run, Step
from runs.selectors.diff import visible
from runs.selectors.words import size

LINES: Final = 200  #: lines of one page
LINE_BYTES: Final = 4_096  #: shown of one line
WINDOW: Final = 1 << 20  #: bytes read for one page
SEARCHED: Final = 64 << 20  #: bytes that a search reads, from the end


@dataclass(frozen=True, slots=True)
class _Source:
    """Bytes of a log, wherever they lie. ``grows`` until its step has ended."""

    size: int
    read: Callable[[int, int], bytes]
    grows: bool
    download: str
    masked: bool = False


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, or the part of it that is shown; ``start`` is its offset, ``more`` what is left out of it."""

    start: int
    data: bytes
    more: int = 0


def run_log_page(*, run: Run, operation_id: str, params: Mapping[str, str]) -> Json:
    """``{title, state, lines, note, earlier, download, query, live}``. Three queries at most while it grows.

    ``params``: ``q``, a text that lines must hold; ``before``, the offset where the page ends.
    Raises ``NotFound`` for a step without output.
    """
    step = Step.objects.filter(run=run, operation_id=operation_id).first()
    if step is None:
        raise NotFound
    source = _source(run, step)
    query = params.get("q", "").strip()[:200]
    lines = _matching(source, query) if query else _before(source, _offset(params, source.size))
    first = lines[0].start if lines else 0
    newest = not query and "before" not in params
    masked = "; what looks like a secret was masked" if source.masked else ""
    return {
        "title": short(step.label, 200) or step.tool or operation_id,
        "state": StepState(step.state).label,
        "lines": [_shown(line, text, query) for line, text in zip(lines, _masked(lines), strict=True)],
        "note": _said(source, lines, query) + masked,
        "earlier": f"?before={first}" if first and not query else "",
        "newest": "" if newest else "?",
        "download": source.download,
        "query": query,
        "live": source.grows and newest,
    }


def _offset(params: Mapping[str, str], end: int) -> int:
    text = params.get("before", "")
    return min(int(text), end) if text.isdigit() and len(text) < 16 else end  # noqa: PLR2004


def _source(run: Run, step: Step) -> _Source:
    """The live log of the newest lease, else the output that the worker handed in."""
    live = LiveLog.objects.select_related("artifact").filter(run=run, operation_id=step.operation_id)
    newest = live.order_by("-fence").first()
    if newest is not None and newest.artifact is None:
        grows = step.state in (StepState.PENDING, StepState.RUNNING)
        return _Source(
            size=livelog_readable(newest) if grows else newest.size,
            read=lambda start, end: livelog_bytes(newest, start, end),
            grows=grows,
            download=reverse("api:log", args=[run.pk, step.operation_id]),
            masked=newest.masked,
        )
    kept = newest.artifact if newest else Artifact.objects.filter(run=run, pk=step.output_artifact_id).first()
    if kept is None:
        raise NotFound
    return _Source(
        size=kept.size,
        read=lambda start, end: _of_file(kept, start, end),
        grows=False,
        download=reverse("artifact", args=[kept.pk]),
        masked=newest is not None and newest.masked,
    )


def _of_file(artifact: Artifact, start: int, end: int) -> bytes:
    try:
        return artifact_read(artifact, start, max(end, start))
    except OSError:
        raise NotFound from None


# --- which lines -----------------------------------------------------------------------------------------


def _before(source: _Source, end: int) -> list[_Line]:
    """The last ``LINES`` lines that end before ``end``, out of one window."""
    start = max(end - WINDOW, 0)
    data = source.read(start, end)
    found = list(_split(data, start))
    if start and len(found) > 1:
        found = found[1:]  # its beginning lies before the window
    return [_cut(line) for line in found[-LINES:]]


def _split(data: bytes, start: int) -> Iterator[_Line]:
    # A progress bar may never end its line: then each time it was drawn anew counts as one.
    end_of_line = b"\n" if b"\n" in data else b"\r"
    for part in data.split(end_of_line):
        yield _Line(start, part)
        start += len(part) + 1


def _cut(line: _Line) -> _Line:
    more = len(line.data) - LINE_BYTES
    return _Line(line.start, line.data[:LINE_BYTES], more) if more > 0 else line


def _matching(source: _Source, query: str) -> list[_Line]:
    """The last ``LINES`` lines that hold ``query``, whatever its case; read from the end in windows."""
    found: list[_Line] = []
    wanted, end, least = query.casefold(), source.size, max(source.size - SEARCHED, 0)
    while end > least and len(found) < LINES:
        start = max(end - WINDOW, 0)
        data = source.read(start, end)
        lines = list(_split(data, start)) if _may_hold(data, wanted) else list(_edges(data, start))
        # A line that begins before the window is looked at with the window before; one longer than a window
        # in parts, for the search must come nearer to the beginning each time.
        whole = lines[1:] if start and len(lines) > 1 and lines[1].start < end else lines
        hits = [line for line in whole if wanted in plain(_text(line.data)).casefold()]
        found = [*map(_cut, hits[-(LINES - len(found)) :]), *found]
        end = whole[0].start if start else 0
    return found


def _may_hold(data: bytes, wanted: str) -> bool:
    """Whether a line of it can hold what is wanted: most windows are done with in one look."""
    return b"\x1b" in data or wanted in _text(data).casefold()


def _edges(data: bytes, start: int) -> Iterator[_Line]:
    """Its first line, which may begin before, and that the rest holds nothing."""
    first, found, _ = data.partition(b"\n")
    yield _Line(start, first)
    if found:
        yield _Line(start + len(first) + 1, b"")


# --- how they are shown ----------------------------------------------------------------------------------


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _masked(lines: Sequence[_Line]) -> list[str]:
    """A worker masks what it knows; what it let through all the same is shown to nobody."""
    return mask_lines([_text(line.data) for line in lines])


def _shown(line: _Line, text: str, query: str) -> Json:
    return {
        "offset": line.start,
        "html": shown_text(text, query),
        "more": f"… {size(line.more)} more" if line.more else "",
    }


def shown_text(text: str, query: str = "") -> SafeString:
    """One line as a page shows it: colours kept, controls marked, each place of ``query`` marked, too."""
    found = [_piece(piece.text, piece.style, is_mark=piece.is_mark, query=query) for piece in pieces(text)]
    return format_html_join("", "{}", ((part,) for part in found))


def _piece(text: str, style: str, *, is_mark: bool, query: str) -> SafeString:
    if is_mark:
        return format_html('<span class="mark-char"><i>{}</i></span>', text)
    shown = _highlighted(text, query) if query else visible(text)
    names = " ".join(f"ink-{name}" for name in style.split())
    return format_html('<span class="{}">{}</span>', names, shown) if names else shown


def _highlighted(text: str, query: str) -> SafeString:
    """The text with each place of the query marked."""
    at, folded, wanted = 0, text.lower(), query.lower()
    parts: list[SafeString] = []
    while wanted and len(folded) == len(text) and (place := folded.find(wanted, at)) >= 0:
        end = place + len(wanted)
        parts += [visible(text[at:place]), format_html("<mark>{}</mark>", visible(text[place:end]))]
        at = end
    parts.append(visible(text[at:]))
    return format_html_join("", "{}", ((part,) for part in parts))


def _said(source: _Source, lines: list[_Line], query: str) -> str:
    """What is shown, and how much is not."""
    whole = size(source.size)
    if query:
        limit = f" in its last {size(SEARCHED)}" if source.size > SEARCHED else ""
        count = f"The last {LINES} lines" if len(lines) == LINES else _counted(lines)
        return f"{count} with “{query}”{limit}, of {whole}"
    if not lines:
        return "Nothing was written yet" if source.grows else "Nothing was written"
    before = f"; {size(lines[0].start)} before them are not shown" if lines[0].start else ""
    return f"{_counted(lines)} of {whole}{before}"


def _counted(lines: list[_Line]) -> str:
    return "1 line" if len(lines) == 1 else f"{len(lines)} lines"
