"""A state has one name, said in one place: pages print what the vocabulary gives them."""

from __future__ import annotations

import ast
import re

from runs.domain.display import Display
from tests.house.sources import ROOT, modules, name, tree

LABELS = {state.label for state in Display}
#: Where a word of the vocabulary is defined, or is a word of another one: kinds of news, statuses.
HOMES = ("runs/domain/", "approvals/notices/words", "agentplatform/documents/")
#: Text between tags, without what a template puts in.
_TEXT = re.compile(r">([^<>{}]+)<")


def test_no_module_of_a_page_writes_a_states_name_of_its_own():
    found = [
        f"{name(path)}:{node.lineno} {node.value}"
        for path in modules("runs", "approvals", "agentplatform")
        if not name(path).startswith(HOMES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and node.value in LABELS
    ]
    assert found == []


def test_no_template_writes_a_states_name_of_its_own():
    said = re.compile(rf"^\W*({'|'.join(sorted(LABELS))})\W*$")
    found = [
        f"{path.relative_to(ROOT)} {text.strip()}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for text in _TEXT.findall(re.sub(r"{%.*?%}|{#.*?#}|{{.*?}}", "", path.read_text()))
        if said.match(text.strip())
    ]
    assert found == []


def test_one_template_draws_a_states_pill():
    drawn = [
        path.name for path in (ROOT / "templates").rglob("*.html") if 'class="state"' in path.read_text()
    ]
    assert drawn == ["state.html"]
