"""First half of the partitions: say how far the table of events reaches, so that it can become one of them.

The table is read once, in VALIDATE, and can be written meanwhile.
"""

import datetime as dt

from django.db import migrations

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DAYS = 8


def _first_id_of(moment):
    """What every id of a run made from this moment on is greater than or equal to."""
    milliseconds = int(moment.timestamp() * 1000)
    return "run_" + "".join(_LETTERS[milliseconds >> shift & 31] for shift in range(45, -1, -5))


def set_bound(apps, schema_editor):
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    bound = _first_id_of(today + dt.timedelta(days=_DAYS))
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT max(run_id) FROM run_events")
        (newest,) = cursor.fetchone()
        if newest is not None and newest >= bound:  # made where a clock ran ahead
            bound = newest + "~"
        cursor.execute("SET lock_timeout = '3s'")
        cursor.execute("ALTER TABLE run_events DROP CONSTRAINT IF EXISTS run_events_bound")
        cursor.execute(
            f"ALTER TABLE run_events ADD CONSTRAINT run_events_bound CHECK (run_id < '{bound}') NOT VALID"
        )
        cursor.execute("RESET lock_timeout")
        cursor.execute("ALTER TABLE run_events VALIDATE CONSTRAINT run_events_bound")


class Migration(migrations.Migration):
    atomic = False
    on_upgrade = "reads the table of events once, about a minute for 100 million; it is written meanwhile"
    dependencies = [("runs", "0009_periodic_tasks")]
    operations = [
        migrations.RunPython(
            set_bound,
            migrations.RunPython.noop,
        )
    ]
