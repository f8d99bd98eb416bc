"""How long the inbox and the letters are kept: what is over and old goes, what still waits stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import Model, Q, QuerySet

from agentplatform.clock import database_now
from approvals.notices.models import Letter, Notice
from approvals.notices.words import Kind

BATCH: Final = 2_000


def forget_old() -> int:
    """Delete notices and letters older than ``NOTICE_DAYS``; how many notices there were.

    In batches, each its own transaction: nobody's inbox waits for a table to be swept.
    """
    before = database_now() - timedelta(days=settings.NOTICE_DAYS)
    waits = Q(kind__in=[Kind.NEEDS_REVIEW, Kind.BLOCKED], settled_at=None)
    gone = _delete(Notice.objects.filter(~waits, created_at__lt=before))
    _delete(Letter.objects.exclude(state=Letter.PENDING).filter(created_at__lt=before))
    return gone


def _delete(rows: QuerySet[Model]) -> int:
    count = 0
    while ids := list(rows.order_by("created_at").values_list("pk", flat=True)[:BATCH]):
        rows.filter(pk__in=ids).delete()
        count += len(ids)
    return count
