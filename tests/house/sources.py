"""The product's source files, as the house tests read them."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agentplatform", "runs", "approvals", "worker")


def modules(*folders: str) -> list[Path]:
    """Python files below these folders, without migrations (which are generated)."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts]


def name(path: Path) -> str:
    """`runs/domain/table.py`: how a failure names the file."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=name(path))
