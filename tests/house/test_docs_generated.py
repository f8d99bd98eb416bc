"""`manage.py generate_docs`: writes what is missing, says what differs, and needs no database."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from agentplatform import documents


@pytest.fixture
def docs(tmp_path, settings):
    """The docs of a checkout elsewhere, freshly generated."""
    settings.BASE_DIR = tmp_path
    call_command("generate_docs")
    return tmp_path / "docs"


def check() -> str:
    said = StringIO()
    call_command("generate_docs", "--check", stdout=said)
    return said.getvalue()


def test_what_was_just_generated_is_not_stale(docs):
    assert "what the code says" in check()


def test_it_is_the_same_twice():
    assert documents.pages() == documents.pages()


def test_a_changed_line_is_shown_and_fails(docs):
    page = docs / "reference" / "lifecycle.md"
    page.write_text(page.read_text().replace("PATCH_READY --> VERIFYING", "PATCH_READY --> SUCCEEDED"))
    said = StringIO()
    with pytest.raises(CommandError):
        call_command("generate_docs", "--check", stdout=said)
    assert "-    PATCH_READY --> SUCCEEDED" in said.getvalue()
    assert "+    PATCH_READY --> VERIFYING" in said.getvalue()


def test_a_page_that_is_generated_no_longer_goes(docs):
    (docs / "reference" / "old.md").write_text("# Old\n")
    with pytest.raises(CommandError):
        check()
    call_command("generate_docs")
    assert not (docs / "reference" / "old.md").exists()


def test_no_page_names_this_machine():
    from django.conf import settings

    assert [name for name, text in documents.pages().items() if str(settings.BASE_DIR) in text] == []
