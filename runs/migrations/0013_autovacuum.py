"""Tables that are written more than they grow are vacuumed sooner, and leave room for rows in place.

PostgreSQL's own scale of a fifth lets a table of a million runs collect 200,000 dead rows, which every claim
reads past. None of this takes a lock that reads or writes wait for.
"""

from django.db import migrations

_OFTEN = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02"
_HOT = {
    # Its page has room for the new version of a row, so a heartbeat writes no index.
    "run_leases": f"fillfactor = 70, autovacuum_vacuum_threshold = 200, {_OFTEN}",
    "runs": f"fillfactor = 85, {_OFTEN}",
    "deliveries": f"fillfactor = 85, {_OFTEN}",
    "worker_accounts": "fillfactor = 70, autovacuum_vacuum_threshold = 100",
    "day_spend": "fillfactor = 50, autovacuum_vacuum_threshold = 100",
    # Rows come and go whole.
    "log_chunks": _OFTEN,
    "run_watches": "autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.05",
    # Only added to: the vacuum freezes what is full and keeps the visibility map.
    "outbox": "autovacuum_vacuum_insert_scale_factor = 0.05",
    "partitions.run_events_first": "autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05",
}


class Migration(migrations.Migration):
    on_upgrade = "sets storage parameters; nobody waits for these locks"
    dependencies = [("runs", "0012_event_archives")]
    operations = [
        migrations.RunSQL(
            [f"ALTER TABLE {table} SET ({options})" for table, options in _HOT.items()],
            [
                f"ALTER TABLE {table} RESET ({', '.join(one.split(' = ')[0] for one in options.split(', '))})"
                for table, options in _HOT.items()
            ],
        )
    ]
