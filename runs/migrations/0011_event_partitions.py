"""Second half: the table of events becomes the first partition of one that is partitioned by run.

Nothing is copied or read: the constraint of the first half says that all of it lies in the partition's range.
What held of the table holds of the new one, taken over from the catalogue as it stands: triggers, checks,
unique keys, the foreign key, rights.
"""

import re

from django.db import migrations

_SWAP = """
    CREATE SCHEMA partitions;
    REVOKE ALL ON SCHEMA partitions FROM PUBLIC;
    ALTER TABLE public.run_events SET SCHEMA partitions;
    ALTER TABLE partitions.run_events RENAME TO run_events_first;
    -- It serves only searches for a beginning, which nobody makes.
    DROP INDEX IF EXISTS partitions.run_events_id_095adb82_like;
    CREATE TABLE public.run_events (LIKE partitions.run_events_first INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
        PARTITION BY RANGE (run_id);
    ALTER TABLE public.run_events DROP CONSTRAINT run_events_bound,
        ADD CONSTRAINT run_events_sequence UNIQUE (run_id, sequence),
        ADD CONSTRAINT run_events_key UNIQUE (run_id, idempotency_key),
        ADD CONSTRAINT run_events_run_id_fk_runs_id FOREIGN KEY (run_id) REFERENCES public.runs (id)
            DEFERRABLE INITIALLY DEFERRED;
"""
# Every partition has the primary key of its own: a key of the whole would have to begin with the run.
_FILL = """
    ALTER TABLE public.run_events ATTACH PARTITION partitions.run_events_first
        FOR VALUES FROM (MINVALUE) TO ('{bound}');
    ALTER TABLE partitions.run_events_first DROP CONSTRAINT run_events_bound;
    CREATE TABLE partitions.run_events_default
        (LIKE partitions.run_events_first INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
    ALTER TABLE public.run_events ATTACH PARTITION partitions.run_events_default DEFAULT;
"""
_ADD = """
CREATE FUNCTION public.add_event_partition(title text, first text, beyond text, most bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    strays bigint;
    guard record;
BEGIN
    EXECUTE format('CREATE TABLE partitions.%I (LIKE partitions.run_events_default
        INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) WITH (
        autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)', title);
    -- Triggers of a row come with the attaching; those of a statement look at the table that it names.
    FOR guard IN SELECT tgname, tgfoid::regprocedure::text AS act FROM pg_trigger
        WHERE tgrelid = 'public.run_events'::regclass AND NOT tgisinternal AND tgtype & 32 > 0 LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON partitions.%I FOR EACH STATEMENT
            EXECUTE FUNCTION %s', guard.tgname, title, guard.act);
    END LOOP;
    SELECT count(*) INTO strays FROM (
        SELECT FROM partitions.run_events_default WHERE run_id >= first AND run_id < beyond LIMIT most + 1
    ) found;
    IF strays > most THEN
        RAISE EXCEPTION 'more than % events wait in the default partition', most
            USING ERRCODE = 'program_limit_exceeded';
    ELSIF strays > 0 THEN
        -- Writers lock their run before they write an event: whoever asks in the same order meets none.
        LOCK TABLE public.runs IN EXCLUSIVE MODE;
        ALTER TABLE public.run_events DETACH PARTITION partitions.run_events_default;
        EXECUTE format('WITH moved AS (DELETE FROM partitions.run_events_default
            WHERE run_id >= %L AND run_id < %L RETURNING *)
            INSERT INTO partitions.%I SELECT * FROM moved', first, beyond, title);
        ALTER TABLE public.run_events ATTACH PARTITION partitions.run_events_default DEFAULT;
    END IF;
    EXECUTE format('ALTER TABLE public.run_events ATTACH PARTITION partitions.%I
        FOR VALUES FROM (%L) TO (%L)', title, first, beyond);
END $$;
REVOKE ALL ON FUNCTION public.add_event_partition FROM PUBLIC;
"""


def swap(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '3s'")
        # Writers lock their run before they write an event: whoever asks in the same order meets none.
        cursor.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        cursor.execute("LOCK TABLE run_events IN ACCESS EXCLUSIVE MODE")
        bound, guards, rights = _bound(cursor), _guards(cursor), _rights(cursor)
        for name, _, _ in guards:
            cursor.execute(f'DROP TRIGGER "{name}" ON run_events')
        cursor.execute(_SWAP)
        for name, definition, comment in guards:
            cursor.execute(definition)
            cursor.execute(f'COMMENT ON TRIGGER "{name}" ON run_events IS %s', [comment])
        cursor.execute(_FILL.format(bound=bound))
        for table in ("run_events_first", "run_events_default"):
            for _, definition, _ in guards:
                if "BEFORE TRUNCATE" in definition:
                    cursor.execute(definition.replace(" ON public.run_events ", f" ON partitions.{table} "))
        _take_over(cursor, rights)
        cursor.execute(_ADD)


def _bound(cursor):
    cursor.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = 'run_events'::regclass AND conname = 'run_events_bound'"
    )
    return re.search(r"'([^']+)'", cursor.fetchone()[0])[1]


def _guards(cursor):
    cursor.execute(
        "SELECT tgname, pg_get_triggerdef(oid), obj_description(oid, 'pg_trigger') FROM pg_trigger"
        " WHERE tgrelid = 'run_events'::regclass AND NOT tgisinternal"
    )
    return cursor.fetchall()


def _rights(cursor):
    cursor.execute(
        "SELECT quote_ident(pg_get_userbyid(grantee)), privilege_type FROM pg_class, aclexplode(relacl)"
        " WHERE pg_class.oid = 'run_events'::regclass AND grantee NOT IN (0, relowner)"
    )
    return cursor.fetchall()


def _take_over(cursor, rights):
    for grantee in {grantee for grantee, _ in [*_rights(cursor), *rights]}:
        cursor.execute(f"REVOKE ALL ON run_events, partitions.run_events_first FROM {grantee}")
    for grantee, right in rights:
        cursor.execute(f"GRANT {right} ON run_events TO {grantee}")


class Migration(migrations.Migration):
    on_upgrade = (
        "locks runs and events for milliseconds, and waits three seconds for it at most: where something "
        "long is open it fails and changes nothing; run migrate again"
    )
    dependencies = [("runs", "0010_event_bound")]
    operations = [migrations.RunPython(swap)]
