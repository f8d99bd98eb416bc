"""Files and functions stay small enough to be read at one go."""

from __future__ import annotations

import ast

from tests.house.sources import PACKAGES, modules, name, tree

LONGEST_FILE = 400
LONGEST_FUNCTION = 40
LONGEST_SCRIPT = 150


def test_no_file_is_too_long():
    lengths = {name(path): len(path.read_text().splitlines()) for path in modules(*PACKAGES, "tests")}
    assert lengths
    assert {file: lines for file, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_function_is_too_long():
    lengths = {
        f"{name(path)}:{node.lineno} {node.name}": _length(node)
        for path in modules(*PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert lengths
    assert {place: lines for place, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring: a signature or an explanation makes nothing complicated."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
