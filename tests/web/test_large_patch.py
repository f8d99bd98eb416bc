"""A patch of 2,000 files or of 50,000 lines: every file named, little sent, and memory that stays."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from django.test import Client

from tests import factories as make
from tests.reviewing import P, large_patch, page, text, waiting_with_patch

# Each look in transactions of its own, as it is served: one around all of it would lie idle for too long.
pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024


@pytest.mark.parametrize(("files", "lines"), [(2_000, 25), (1, 50_000)])
def test_a_large_patch_costs_the_server_a_bounded_answer(client: Client, files: int, lines: int) -> None:
    patch = large_patch(files, lines)
    request = waiting_with_patch(patch)
    client.force_login(make.person(P.REVIEWER))
    tracemalloc.start()
    try:
        shown = page(client, request)
        _, first = tracemalloc.get_traced_memory()
        gc.collect()
        kept_before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        page(client, request)
        gc.collect()
        kept, again = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert f"{files:,} file{'s' if files > 1 else ''}, +50,000 −0" in text(shown)
    assert shown.content.count(b"data-open href=") == files
    assert len(shown.content) < 2 * MIB
    assert first < 60 * MIB
    assert again < 40 * MIB
    assert kept - kept_before < 2 * MIB  # what one look keeps, the next one finds
