"""The embedded server: quick to start, hard to kill, at home in any folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from agentplatform.postgres import APP_ROLE, PostgresError, Server


@pytest.fixture(scope="module")
def server(new_folder: Callable[[], Path]) -> Iterator[Server]:
    server = Server(new_folder() / "postgres")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def running(server: Server) -> Server:
    """The module's server, running, whatever the test before did to it."""
    server.start()
    return server


def test_the_app_may_sign_in_and_is_no_superuser(running):
    with psycopg.connect(running.app_url) as app:
        assert app.info.user == APP_ROLE
        assert app.info.parameter_status("is_superuser") == "off"


def test_starting_a_running_server_changes_nothing(running):
    pid = running.pid()
    assert Server(running.folder).start() is False
    assert running.pid() == pid


def test_acknowledged_rows_survive_a_kill_and_the_server_is_back_at_once(running):
    with psycopg.connect(running.owner_url) as owner:
        owner.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
    for number in range(3):
        with psycopg.connect(running.owner_url) as owner:
            owner.execute("INSERT INTO kept VALUES (%s)", [number])
        os.kill(running.pid(), signal.SIGKILL)
        assert Server(running.folder).start() is True
    with psycopg.connect(running.owner_url) as owner:
        assert owner.execute("SELECT count(*) FROM kept").fetchone() == (3,)


def test_a_pid_file_that_names_an_unrelated_process_does_not_block_the_start(running):
    running.stop()
    stranger = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        (running.folder / "postmaster.pid").write_text(f"{stranger.pid}\n{running.folder}\n")
        assert running.pid() is None
        assert running.start() is True
        running.stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_crash_while_the_data_folder_was_made_does_not_block_the_start(new_folder):
    folder = new_folder()
    half_made = folder / "postgres.new"
    half_made.mkdir()
    (half_made / "PG_VERSION").write_text("18\n")
    server = Server(folder / "postgres")
    try:
        assert server.start() is True
    finally:
        server.stop()


def test_a_folder_too_deep_for_a_socket_gets_a_short_private_one(new_folder):
    server = Server(new_folder() / ("deep" * 20) / ("deeper" * 15) / "postgres")
    try:
        server.start()
        assert server.socket_folder != server.folder
        assert server.socket_folder.stat().st_mode & 0o077 == 0
        with psycopg.connect(server.app_url) as app:
            assert app.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.stop()
        server.socket_folder.rmdir()


def test_only_its_own_account_may_enter_the_data_folder(running):
    assert running.folder.stat().st_mode & 0o077 == 0


def test_commands_stop_the_server_that_they_started_and_no_other(running):
    with Server(running.folder).running():
        pass
    assert running.pid() is not None
    running.stop()
    with Server(running.folder).running():
        with Server(running.folder).running():
            pass
        assert running.pid() is not None
    assert running.pid() is None


def test_a_supervisor_does_not_take_the_server_from_a_running_command(running):
    with (
        running.running(),
        pytest.raises(PostgresError, match="Another command"),
        Server(running.folder).taken_over(),
    ):
        pass
    with Server(running.folder).taken_over():
        assert running.pid() is None


def test_a_server_that_cannot_start_says_why(new_folder):
    server = Server(new_folder() / "postgres", {"shared_buffers": "nonsense"})
    with pytest.raises(PostgresError, match="shared_buffers"):
        server.start()


def test_the_address_is_known_before_anything_is_touched(tmp_path):
    assert Server(Path(tmp_path) / "postgres").app_url.startswith(f"postgresql://{APP_ROLE}@/")
    assert not list(tmp_path.iterdir())
