"""What goes wrong: each fault hits one part of a running product. Chance comes from the dice alone."""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from agentplatform.postgres import APP_ROLE, OWNER_ROLE
from tests.chaos.world import World

Fault = Callable[[World, random.Random], None]


def kill_web_process(here: World, dice: random.Random) -> None:
    """One of the processes that answer, in the middle of whatever it answers."""
    _kill(dice.choice(here.children("gunicorn")[1:] or here.children("gunicorn")))


def kill_web(here: World, dice: random.Random) -> None:
    """The web server as a whole."""
    for process in here.children("gunicorn"):
        _kill(process)


def freeze_web_process(here: World, dice: random.Random) -> None:
    """One of them stands still for a while, with connections and locks in its hands."""
    here.freeze(here.children("gunicorn")[-1:], dice.uniform(1, 4))


def kill_background(here: World, dice: random.Random) -> None:
    """Relay, sweep and git integration."""
    for process in here.children("celery"):
        _kill(process)


def freeze_background(here: World, dice: random.Random) -> None:
    """They stand still beyond the claims that they hold."""
    here.freeze(here.children("celery"), dice.uniform(2, 12))


def kill_worker(here: World, dice: random.Random) -> None:
    """A machine, with all runs in its hands."""
    machine = dice.choice(here.machines)
    if machine.process is not None:
        machine.process.kill()
        machine.process.wait()


def freeze_worker(here: World, dice: random.Random) -> None:
    """A machine stands still until its leases have ended, and wakes up believing that it holds them."""
    machine = dice.choice(here.machines)
    if machine.process is not None and machine.process.poll() is None:
        here.freeze([psutil.Process(machine.process.pid)], dice.uniform(7, 10))


def delete_broker(here: World, dice: random.Random) -> None:
    """All messages of the broker are lost, and its folders."""
    shutil.rmtree(here.product.folder / "broker" / "messages", ignore_errors=True)


def block_broker(here: World, dice: random.Random) -> None:
    """The broker cannot be reached for a while."""
    messages = here.product.folder / "broker" / "messages"
    shutil.rmtree(messages, ignore_errors=True)
    with suppress(OSError):
        messages.write_text("in the way")
    timer = threading.Timer(dice.uniform(1, 3), _unblock, [messages])
    timer.start()
    here.frozen.append(timer)


def _unblock(messages: Path) -> None:
    if messages.is_file():
        messages.unlink()


def kill_database(here: World, dice: random.Random) -> None:
    """The server and everything it began, at once, as when the machine loses power."""
    here.product.eventually(here.product.is_ready)
    for process in here.database():
        _kill(process)


def kill_backend(here: World, dice: random.Random) -> None:
    """One connection's process: the server then throws out all others and recovers."""
    with suppress(psycopg.OperationalError), _owner(here) as owner:
        rows = owner.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = %s ORDER BY pid", [APP_ROLE]
        ).fetchall()
        if rows:
            _kill(psutil.Process(dice.choice(rows)[0]))


def restart_database(here: World, dice: random.Random) -> None:
    """As an administrator does it: open transactions are rolled back."""
    with suppress(OSError, ValueError, IndexError, psutil.NoSuchProcess):
        psutil.Process(here.product.database_pid).send_signal(signal.SIGINT)


def freeze_database(here: World, dice: random.Random) -> None:
    """It answers nobody for a while."""
    here.freeze(here.database(), dice.uniform(1, 3))


def cut_connections(here: World, dice: random.Random) -> None:
    """Every connection of the application is closed by the server."""
    with suppress(psycopg.OperationalError), _owner(here) as owner:
        owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [APP_ROLE])


def make_read_only(here: World, dice: random.Random) -> None:
    """As after a failover to a standby: for a while everything can be read and nothing written."""

    _set_read_only(here, "on")
    timer = threading.Timer(dice.uniform(1, 3), _until_done, [lambda: _set_read_only(here, "off")])
    timer.start()
    here.frozen.append(timer)


def _set_read_only(here: World, to: str) -> bool:
    """Whether it was done; the server may be down at this very moment."""
    with suppress(psycopg.OperationalError), _owner(here) as owner:
        owner.execute(f"ALTER ROLE {APP_ROLE} SET default_transaction_read_only = {to}")
        owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [APP_ROLE])
        return True
    return False


def _until_done(act: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not act() and time.monotonic() < ends:
        time.sleep(0.2)


def kill_platform(here: World, dice: random.Random) -> None:
    """`up` itself dies; whoever runs it starts it again."""
    here.product.kill()
    here.product.start()


#: Every fault, with how often it comes in the quick and in the long form.
FAULTS: dict[Fault, tuple[int, int]] = {
    kill_web_process: (10, 100),
    kill_database: (3, 50),
    kill_web: (1, 10),
    freeze_web_process: (1, 20),
    kill_background: (2, 40),
    freeze_background: (1, 20),
    kill_worker: (3, 60),
    freeze_worker: (1, 20),
    delete_broker: (1, 20),
    block_broker: (1, 20),
    kill_backend: (1, 20),
    restart_database: (1, 20),
    freeze_database: (1, 20),
    cut_connections: (1, 20),
    make_read_only: (1, 20),
    kill_platform: (0, 5),
}


def plan(dice: random.Random, *, is_long: bool) -> list[Fault]:
    """What comes after what."""
    faults = [fault for fault, counts in FAULTS.items() for _ in range(counts[is_long])]
    dice.shuffle(faults)
    return faults


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def _owner(here: World) -> psycopg.Connection:
    return psycopg.connect(here.server.url(OWNER_ROLE), autocommit=True, connect_timeout=3)
