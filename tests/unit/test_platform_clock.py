from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from agentplatform.clock import rfc3339


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 7, 3, 10, 20, 30, tzinfo=UTC), "2026-07-03T10:20:30.000000Z"),
        (datetime(2026, 7, 3, 10, 20, 30, 5, tzinfo=UTC), "2026-07-03T10:20:30.000005Z"),
        (datetime(2026, 7, 3, 1, 0, tzinfo=timezone(timedelta(hours=2))), "2026-07-02T23:00:00.000000Z"),
    ],
)
def test_moments_are_written_in_utc_with_microseconds(moment, text):
    assert rfc3339(moment) == text


def test_a_moment_without_an_offset_is_refused():
    with pytest.raises(ValueError, match="offset"):
        rfc3339(datetime(2026, 7, 3))  # noqa: DTZ001  that is the point
