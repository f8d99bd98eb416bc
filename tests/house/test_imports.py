"""Data flows one way: the import rules of pyproject.toml hold."""

from __future__ import annotations

import sys
from pathlib import Path

from importlinter.cli import lint_imports


def test_import_rules_hold(monkeypatch, capsys):
    root = Path(__file__).resolve().parents[2]
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", [str(root), *sys.path])
    status = lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out
