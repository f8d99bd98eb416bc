"""The state machine as a drawing (SVG) and as text (Mermaid), both from the one table of transitions.

No status, edge or word is written here: what the table does not have cannot be drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from runs.domain.display import Standing, display_state
from runs.domain.table import edges
from runs.domain.vocabulary import ACTIVE, OWNER, Ev, RunStatus, TaskStatus

S = RunStatus
Pair = tuple[RunStatus, RunStatus]

#: The line that a run follows from top to bottom; the other ends are lanes beside it, the gate stands aside.
LINE: Final = tuple(
    s for s in RunStatus if s not in {S.WAITING_FOR_APPROVAL, S.FAILED, S.CANCELLED, S.EXPIRED}
)
LANES: Final = (S.FAILED, S.CANCELLED, S.EXPIRED)

WIDTH, HEIGHT = 204, 36
ROW, TOP = 60, 24
LINE_X, GATE_X, LANE_X, LANE_STEP = 292, 8, 600, 92


def moves() -> dict[Pair, list[Ev]]:
    """(from, to) → the events that lead there; stays are left out."""
    found: dict[Pair, list[Ev]] = defaultdict(list)
    for event, source, target in edges():
        if source is not target and event not in found[source, target]:
            found[source, target].append(event)
    return dict(found)


def mermaid() -> str:
    """A ``stateDiagram-v2`` of every move, for the docs."""
    lines = ["stateDiagram-v2", f"    [*] --> {S.CREATED}: {Ev.RUN_CREATED}"]
    for (source, target), events in moves().items():
        lines.append(f"    {source} --> {target}: {' / '.join(events)}")
    lines += [f"    {status} --> [*]" for status in RunStatus if status.is_terminal]
    return "\n".join(lines) + "\n"


def svg(*, counts: Mapping[str, int], hrefs: Mapping[str, str]) -> str:
    """The drawing. ``counts``: runs that stand in each status; ``hrefs``: where a click on it leads.

    Colour and type come from the page's style sheet; without it the drawing is plain but whole.
    """
    height = TOP + ROW * len(LINE) + HEIGHT + 8
    width = LANE_X + LANE_STEP * (len(LANES) - 1) + 110
    parts = [*_lanes(), *_line_edges(), *_gate_edges(), *_nodes(counts, hrefs)]
    return (
        f'<svg class="drawing" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="group" '
        f'aria-label="The statuses of a run and the events that lead from one to the next">{_HEAD}'
        f"{''.join(parts)}</svg>"
    )


_HEAD: Final = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path class="faint" d="M0 0 8 4 0 8Z"/></marker></defs>'
)


# --- where things stand --------------------------------------------------------------------------


def _corner(status: RunStatus) -> tuple[int, int]:
    """The node's upper left corner."""
    if status in LANES:
        return LANE_X + LANE_STEP * LANES.index(status) - 40, TOP + ROW * len(LINE)
    if status is S.WAITING_FOR_APPROVAL:
        return GATE_X, _corner(S.PATCH_READY)[1]
    return LINE_X, TOP + ROW * LINE.index(status)


def _middle(status: RunStatus) -> int:
    return _corner(status)[1] + HEIGHT // 2


# --- edges ---------------------------------------------------------------------------------------


def _edge(path: str, title: str, *, both: bool = False, plain: bool = False) -> str:
    start = ' marker-start="url(#head)"' if both else ""
    end = "" if plain else ' marker-end="url(#head)"'
    return f'<path class="edge" d="{path}"{start}{end}><title>{escape(title)}</title></path>'


def _words(source: RunStatus, target: RunStatus, events: list[Ev]) -> str:
    return f"{source.label} → {target.label}: {', '.join(event.label for event in events)}"


def _line_edges() -> Iterator[str]:
    """Down the line; what skips or goes back bends out to the right."""
    for (source, target), events in moves().items():
        if source not in LINE or target not in LINE:
            continue
        title = _words(source, target, events)
        down = LINE.index(target) - LINE.index(source)
        if down == 1:
            x, y = LINE_X + 20, _corner(source)[1] + HEIGHT
            yield _edge(f"M{x} {y}V{_corner(target)[1]}", title)
            yield _label(x + 8, y + 16, events[0].label)
            continue
        x, bend = LINE_X + WIDTH, LINE_X + WIDTH + 10 + 12 * abs(down)
        y1, y2 = _middle(source) + (6 if down > 0 else -6), _middle(target) + (-6 if down > 0 else 6)
        yield _edge(f"M{x} {y1}C{bend} {y1} {bend} {y2} {x} {y2}", title)


def _gate_edges() -> Iterator[str]:
    """Into the gate and out of it: one curve for each status, with a head at each end that the table has."""
    gate, found = S.WAITING_FOR_APPROVAL, moves()
    for status in LINE:
        opens, leaves = found.get((status, gate)), found.get((gate, status))
        if not opens and not leaves:
            continue
        titles = [_words(status, gate, opens)] if opens else []
        titles += [_words(gate, status, leaves)] if leaves else []
        x, y = LINE_X, _middle(status)
        gate_x, gate_y = GATE_X + WIDTH, _middle(gate)
        path = f"M{gate_x} {gate_y}C{gate_x + 50} {gate_y} {x - 50} {y} {x} {y}"
        if leaves:
            yield _edge(path, "; ".join(titles), both=bool(opens))
        else:
            yield _edge(f"M{x} {y}C{x - 50} {y} {gate_x + 50} {gate_y} {gate_x} {gate_y}", titles[0])


def _lanes() -> Iterator[str]:
    """The other ends: a lane each, with a dot beside every status that may end there."""
    found = moves()
    for lane in LANES:
        x = LANE_X + LANE_STEP * LANES.index(lane)
        sources = [s for s in ACTIVE if (s, lane) in found]
        rows = [_lane_row(s) for s in sources]
        yield _edge(f"M{x} {min(rows)}V{_corner(lane)[1]}", f"{lane.label}: from {len(sources)} statuses")
        for source, y in zip(sources, rows, strict=True):
            title = escape(_words(source, lane, found[source, lane]))
            yield f'<circle class="faint" cx="{x}" cy="{y}" r="3.5"><title>{title}</title></circle>'


def _lane_row(status: RunStatus) -> int:
    """The gate stands beside the line, so its dots lie between two rows of it."""
    return _middle(status) + (ROW // 2 if status is S.WAITING_FOR_APPROVAL else 0)


# --- nodes ---------------------------------------------------------------------------------------


def _nodes(counts: Mapping[str, int], hrefs: Mapping[str, str]) -> Iterator[str]:
    for status in RunStatus:
        x, y = _corner(status)
        width = 84 if status in LANES else WIDTH
        count = counts.get(status.value, 0)
        number = f" {count:,}" if status in LANES and count else ""
        size = f'width="{width}" height="{HEIGHT}" rx="6"'
        shape = f'<rect class="node" data-tone="{_tone(status)}" x="{x}" y="{y}" {size}/>'
        text = f'<text x="{x + 10}" y="{y + 22}">{escape(status.label)}{number}</text>'
        if count and status not in LANES:
            text += f'<text x="{x + width - 10}" y="{y + 22}" text-anchor="end">{count:,}</text>'
        said = f"{status.label}, {count:,} runs. {status.sentence} Owner: {OWNER[status].label}."
        node = f"{shape}{text}<title>{escape(said)}</title>"
        href = hrefs.get(status.value)
        yield f'<a href="{escape(href)}">{node}</a>' if href else f"<g>{node}</g>"
    gate_y = _corner(S.WAITING_FOR_APPROVAL)[1] + HEIGHT + ROW // 2 - HEIGHT // 2 + 4
    yield _label(LANE_X - 8, gate_y, "at a gate", anchor="end")


def _tone(status: RunStatus) -> str:
    """The tone that a run in this status has on every other page."""
    return display_state(Standing(TaskStatus.RUNNING.value, run_status=status.value, leased=True)).tone


def _label(x: int, y: int, text: str, *, anchor: str = "start") -> str:
    return f'<text class="faint" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
