"""The drawing shows every status and every move of the table, and nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from runs.domain.diagram import LANES, LINE, mermaid, moves, svg
from runs.domain.table import MOVES
from runs.domain.vocabulary import RunStatus

SVG = "{http://www.w3.org/2000/svg}"


def drawn(**counts: int) -> ET.Element:
    hrefs = {status.value: f"/runs/?status={status}&x=1" for status in RunStatus}
    text = svg(counts=counts, hrefs=hrefs).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ET.fromstring(text)


def titles(root: ET.Element) -> str:
    return "\n".join(title.text or "" for title in root.iter(f"{SVG}title"))


def test_every_status_is_a_node_that_leads_to_its_runs():
    links = [link.get("href") or "" for link in drawn().iter(f"{SVG}a")]
    assert sorted(links) == sorted(f"/runs/?status={status}&x=1" for status in RunStatus)


def test_every_move_of_the_table_is_drawn():
    assert set(moves()) == set(MOVES)
    words = titles(drawn())
    for source, target in MOVES:
        assert f"{source.label} → {target.label}: " in words


def test_counts_stand_in_their_nodes():
    texts = [text.text or "" for text in drawn(QUEUED=1200, FAILED=3).iter(f"{SVG}text")]
    assert "1,200" in texts
    assert "Failed 3" in texts


def test_nothing_inline_and_nothing_that_runs():
    text = svg(counts={}, hrefs={"QUEUED": '"><script>alert(1)</script>'})
    assert "<script" not in text
    assert not re.search(r"\sstyle=|\son\w+=", text)


def test_the_line_and_the_lanes_hold_every_status_but_the_gate():
    assert {*LINE, *LANES} == set(RunStatus) - {RunStatus.WAITING_FOR_APPROVAL}


def test_the_text_form_has_every_move():
    text = mermaid()
    assert text.startswith("stateDiagram-v2\n    [*] --> CREATED: run_created\n")
    assert all(f"    {source} --> {target}: " in text for source, target in MOVES)
    assert text.count("--> [*]") == 4
