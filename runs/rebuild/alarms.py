"""What a check leaves for people: alarms, until all is right again."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from django.db import transaction

from agentplatform.clock import database_now
from runs.models import Alarm
from runs.rebuild.chain import Break
from runs.rebuild.comparing import Difference

log = structlog.get_logger(__name__)


@transaction.atomic
def note(
    stream_id: str, differences: Iterable[Difference], breaks: Iterable[Break], *, unreadable: str = ""
) -> int:
    """Let the alarms of one run or task be these, and no others; how many there are.

    ``unreadable``: why its log could not be folded, so that nothing is known of its rows.
    """
    rows = {(Alarm.ROWS, f"{d.where}.{d.field}"[:400]): str(d) for d in differences}
    logs = {(Alarm.LOG, f"event {b.sequence}"): str(b) for b in breaks}
    found = {**rows, **logs, **({(Alarm.LOG, "fold"): unreadable} if unreadable else {})}
    for alarm in Alarm.objects.filter(stream=stream_id):
        if (alarm.kind, alarm.place) not in found:
            alarm.delete()
    now = database_now()
    for (kind, place), detail in found.items():
        log.error("alarm", kind=kind, stream=stream_id, place=place)
        Alarm.objects.update_or_create(
            stream=stream_id, kind=kind, place=place, defaults={"detail": detail},
            create_defaults={"detail": detail, "found_at": now},
        )  # fmt: skip
    return len(found)
