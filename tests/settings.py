"""The product's own settings, in a data folder of this test session.

All processes of a session (pytest and its xdist workers) share the folder, and with it one database server:
the embedded one, or by `AGENTPLATFORM_TEST_ON` Debian's own servers, which the session starts for itself:
`debian` (PostgreSQL, with Redis as the broker) or `pgbouncer` (the same through PgBouncer in its transaction
mode).
A `DATABASE_URL` in the environment names another server to use: as a superuser, for the suite makes databases
and a role there.
"""

import os
import tempfile
from pathlib import Path

from psycopg.conninfo import make_conninfo

from tests import servers

_SESSION = "AGENTPLATFORM_TEST_SESSION"

if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ[_SESSION] = str(os.getpid())
    os.environ["AGENTPLATFORM_TEST_SERVER"] = os.environ.get("DATABASE_URL", "")

SESSION_NAME = f"agentplatform_test_{os.environ[_SESSION]}"
SESSIONS_FOLDER = Path(tempfile.gettempdir()) / f"agentplatform-tests-{os.getuid()}"
SESSION_FOLDER = SESSIONS_FOLDER / os.environ[_SESSION]
ON = os.environ.get("AGENTPLATFORM_TEST_ON", "")
if ON not in {"", "debian", "pgbouncer"}:
    raise ValueError(f"AGENTPLATFORM_TEST_ON is debian, pgbouncer or nothing; it is {ON!r}.")
OTHER_SERVER = os.environ["AGENTPLATFORM_TEST_SERVER"]
if ON:
    OTHER_SERVER = servers.socket_url(SESSION_FOLDER / "debian", "postgres", "postgres")

# The suite decides its settings itself: what the shell happens to export must not change a result.
for _name in (
    "AGENTPLATFORM_ENV",
    "AGENTPLATFORM_PROCESS",
    "AGENTPLATFORM_URL",
    "SECRET_KEY",
    "CELERY_BROKER_URL",
    "DATABASE_POOLER_URL",
):
    os.environ.pop(_name, None)
os.environ["AGENTPLATFORM_DATA_DIR"] = str(SESSION_FOLDER)
os.environ["LOG_LEVEL"] = "WARNING"
if OTHER_SERVER:
    os.environ["DATABASE_OWNER_URL"] = OTHER_SERVER
    os.environ["DATABASE_URL"] = make_conninfo(OTHER_SERVER, user=SESSION_NAME, password=SESSION_NAME)
if ON:
    os.environ["CELERY_BROKER_URL"] = servers.redis_url(SESSION_FOLDER / "redis")
if ON == "pgbouncer":
    _pooler = SESSION_FOLDER / "pooler"
    os.environ["DATABASE_POOLER_URL"] = servers.pooler_url(_pooler, SESSION_NAME, "postgres")

# The extra is on here, so that its pages stand in the tables of who may; products of their own start without.
_EXTRA = {
    "OIDC_ISSUER": "http://127.0.0.1:9",
    "OIDC_CLIENT_ID": "platform",
    "OIDC_CLIENT_SECRET": "not-a-secret",
}
os.environ.update(_EXTRA)

from agentplatform.settings import *  # noqa: E402, F403  they read the environment that was prepared above

for _name in _EXTRA:
    del os.environ[_name]

# Bytes are named by their digest: in one folder the damage that a test does would be its neighbours', too.
ARTIFACT_DIR = SESSION_FOLDER / "artifacts" / os.environ.get("PYTEST_XDIST_WORKER", "main")

PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.MD5PasswordHasher"
]  # many people sign in; none of them is real
