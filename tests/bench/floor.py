"""The floor: what PostgreSQL alone does for the same work, each in one round trip, by pgbench.

The tables are small copies of the product's with the same keys, so that the ratio says what the code above
the database costs, and nothing about the machine.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psycopg

CLIENTS = 8
RUNS = 1_000

_TABLES = f"""
DROP SCHEMA IF EXISTS floor CASCADE; CREATE SCHEMA floor;
CREATE TABLE floor.runs (id bigint PRIMARY KEY, version bigint NOT NULL, state jsonb NOT NULL,
    queue_key bigint, claim text NOT NULL);
CREATE TABLE floor.events (run_id bigint NOT NULL, sequence bigint NOT NULL, key text NOT NULL,
    payload jsonb NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (run_id, sequence), UNIQUE (run_id, key));
CREATE TABLE floor.leases (run_id bigint PRIMARY KEY, token text NOT NULL, expires_at timestamptz NOT NULL);
CREATE TABLE floor.outbox (id bigserial PRIMARY KEY, run_id bigint NOT NULL, payload jsonb NOT NULL);
CREATE INDEX ON floor.runs (queue_key, id) WHERE claim <> '';
INSERT INTO floor.runs SELECT n, 0, jsonb_build_object('filling', repeat('x', 1500)), n, ''
    FROM generate_series(1, {RUNS}) n;
INSERT INTO floor.leases SELECT n, 'token', now() + interval '1 day' FROM generate_series(1, {RUNS}) n;
"""
_PAYLOAD = """'{"decision": "tool", "summary": "Look at the failing test"}'"""
_STATE = "jsonb_build_object('filling', repeat('x', 1500))"

EVENT = rf"""
\set run random(1, {RUNS})
\set key random(1, 1000000000)
BEGIN \; SELECT version FROM floor.runs WHERE id = :run FOR UPDATE \;
SELECT 1 FROM floor.events WHERE run_id = :run AND key = ':key' \;
SELECT token, expires_at FROM floor.leases WHERE run_id = :run \;
INSERT INTO floor.events SELECT :run, version + 1, ':key', {_PAYLOAD}, clock_timestamp()
    FROM floor.runs WHERE id = :run \;
UPDATE floor.runs SET version = version + 1, state = {_STATE} WHERE id = :run \;
INSERT INTO floor.outbox (run_id, payload) VALUES (:run, {_PAYLOAD}) \; COMMIT;
"""
HEARTBEAT = rf"""
\set run random(1, {RUNS})
UPDATE floor.leases SET expires_at = clock_timestamp() + interval '1 minute'
    WHERE run_id = :run AND token = 'token';
"""
CLAIM = rf"""
\set key random(1, 1000000000)
BEGIN \; INSERT INTO floor.runs
    SELECT nextval('floor.outbox_id_seq') + 1000000000, 0, {_STATE}, :key, 'worker' \;
UPDATE floor.runs SET claim = '', state = {_STATE} WHERE id = (
    SELECT id FROM floor.runs WHERE claim <> '' ORDER BY queue_key, id LIMIT 1 FOR UPDATE SKIP LOCKED)
\; COMMIT;
"""


def prepare(url: str) -> None:
    """Make the small tables anew."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(_TABLES)


def remove(url: str) -> None:
    """Drop them again."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("DROP SCHEMA IF EXISTS floor CASCADE")


def measure(pgbench: Path, url: str, script: str, *, seconds: int, folder: Path) -> tuple[float, float]:
    """Transactions per second, and the 99th percentile of their time in ms."""
    for old in folder.glob("pgbench_log.*"):
        old.unlink()
    file = folder / "script.sql"
    file.write_text(script.strip() + "\n")
    words = [pgbench, "-n", "-f", file, "-c", str(CLIENTS), "-j", "1", "-T", str(seconds), "-l", url]
    out = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True, check=True
    )
    found = re.search(r"tps = ([\d.]+)", out.stdout)
    if not found:
        raise RuntimeError(out.stdout + out.stderr)
    times = sorted(
        int(line.split()[2]) for log in folder.glob("pgbench_log.*") for line in log.read_text().splitlines()
    )
    return float(found[1]), times[int(len(times) * 0.99)] / 1000
