"""Whether a file holds every event of its runs, unedited, and adds up to the rows that are still there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runs import store
from runs.archives.files import Whole, read_archive
from runs.domain.facts import Event, Json
from runs.domain.fold import evolve
from runs.domain.state import RunState
from runs.models import Run
from runs.rebuild.chain import Break, wrong_link


def verify_archive(path: Path, *, run_id: str = "") -> Iterator[Break]:
    """The first break of each log in the file, or of one run's alone; the file's own comes last.

    Read from the disk, event by event: each chain and its keyed head, the fold against the run's row where
    there is one, and the line that closes the file. One query for each run.
    """
    whole, closing, found = Whole(""), None, False
    try:
        for head, events in read_archive(path):
            if "archive" in head:
                closing = head
                continue
            whole.add(head["run"], head["events"], head["chain_hash"])
            if run_id in ("", head["run"]):
                found = True
                yield from _of_run(head, events)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        yield Break(path.name, whole.events + 1, f"the file cannot be read on: {error}")
        return
    if run_id and not found:
        yield Break(path.name, whole.events, f"there is no run {run_id} in it")
    yield from _of_file(path.name, whole, closing)


def _of_run(head: Json, events: list[Event]) -> Iterator[Break]:
    stream, link = head["run"], ""
    state = RunState()
    for number, event in enumerate(events, 1):
        strange = "" if event.run_id == stream else "it is another run's"
        if why := strange or wrong_link(event, number, link):
            yield Break(stream, number, why)
            return
        link = event.hash
        evolve(state, event)
    if why := _wrong_end(head, len(events), link):
        yield Break(stream, len(events), why)
    elif row := Run.objects.filter(pk=stream).first():
        yield from _against_row(row, head, state)


def _wrong_end(head: Json, count: int, link: str) -> str:
    if count != head["events"]:
        return f"{head['events']} events were recorded, {count} are there"
    if link != head["chain_hash"]:
        return "the recorded head is another event's"
    if head["chain_mac"] != store.mac(head["run"], count, link):
        return "the head's key does not fit: it was made without the platform's key"
    return ""


def _against_row(row: Run, head: Json, state: RunState) -> Iterator[Break]:
    if (row.version, row.chain_hash) != (head["events"], head["chain_hash"]):
        yield Break(row.pk, head["events"], f"the run's row ends with event {row.version}, or with another")
    elif state.to_json() != row.state:
        yield Break(row.pk, head["events"], "the events do not add up to the run's row")


def _of_file(name: str, whole: Whole, closing: Json | None) -> Iterator[Break]:
    if closing is None:
        yield Break(name, whole.events, "its last line is missing: it was cut off")
        return
    whole.name = str(closing["archive"])
    if closing != whole.line():
        yield Break(name, whole.events, "its last line does not fit: a run was taken out, put in or changed")
