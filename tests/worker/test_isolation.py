"""Walls around commands where the machine has them; without them, the worker says so."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from worker.client.protocol import Repository
from worker.conformance.stand_in import StandIn
from worker.sandbox.folder import Checkout, Sandbox
from worker.sandbox.isolation import NAMESPACE, PROCESS, Isolation, find_isolation
from worker.sandbox.process import Limits, Result, end_marked, run_command


@pytest.fixture(scope="module")
def best() -> Isolation:
    return find_isolation("auto")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("canary\n")
    return folder


@pytest.fixture
def checkout(work_dir: Path, repository: Path, canary: Path) -> Iterator[Checkout]:
    sandbox = Sandbox.create(
        work_dir=work_dir,
        run_id="run_1",
        repository=Repository("repo", str(repository), "main"),
        base_commit=None,
        isolation=find_isolation("auto", private=[work_dir, canary]),
        limits=Limits(processes=40, memory_bytes=200 << 20, disk_bytes=30 << 20, file_bytes=100 << 20),
    )
    yield sandbox.checkout("agent")
    assert sandbox.destroy()


def run(checkout: Checkout, line: str, *, network: bool = False, seconds: float = 30) -> Result:
    command = checkout.command(
        ["/bin/sh", "-c", line],
        cwd=checkout.path,
        network=network,
        timeout_seconds=seconds,
        kill_after_seconds=0.3,
    )
    result = run_command(command)
    assert end_marked(checkout.sandbox.id, seconds=0)
    return result


def test_the_level_is_found_by_trying_and_never_claimed(best: Isolation) -> None:
    assert best.level in (PROCESS, NAMESPACE)
    assert find_isolation(PROCESS).walls([Path("/")], Path("/"), network=False) is None


def test_nothing_outside_the_sandbox_can_be_changed_or_seen(checkout: Checkout, canary: Path) -> None:
    result = run(
        checkout,
        f"ls {checkout.sandbox.root.parent.parent}; cat {canary}/secret; touch {canary}/new"
        f" || echo kept; ln -s {canary} link; echo x > link/through; touch inside $TMPDIR/t && echo worked",
    )
    assert (checkout.path / "inside").exists()
    assert b"worked" in result.output
    walled = checkout.sandbox.isolation.level == NAMESPACE
    # Without walls the worker says "process", and a policy can keep such runs away from it.
    assert (b"canary" not in result.output) is walled
    assert (sorted(path.name for path in canary.iterdir()) == ["secret"]) is walled
    assert (b"mirrors" not in result.output) is walled


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_only_for_phases_that_need_it(checkout: Checkout, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')"
        result = run(checkout, f'python3 -c "{line}"', network=network)
    reachable = network or checkout.sandbox.isolation.level == PROCESS
    assert (result.output == b"reached\n") is reachable, result.output


def test_a_loopback_of_its_own_is_left_for_checks_that_serve(checkout: Checkout) -> None:
    line = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        " socket.create_connection(s.getsockname(), 5); print('spoke')"
    )
    assert run(checkout, f'python3 -c "{line}"').output == b"spoke\n"


PLANT = """
cd {root} 2>/dev/null || cd {folder}/..
for n in 2 3 4 5 6 7 8; do
  mkdir -p git-$n/info evil/info && echo ../evil > git-$n/commondir
done
echo '* filter=x' > evil/info/attributes
printf '[filter "x"]\\n\\tclean = touch {canary}/ran\\n' > evil/config
mkdir -p mine; ln -s {root}/mine verify; ln -s {canary} baseline
echo '{{}}' > owner.json; rm -f owner.json; mkfifo owner.json
mv {folder}/checkout {folder}/away; ln -s {canary} {folder}/checkout
mv {folder}/home {folder}/gone; ln -s {canary} {folder}/home
rm -rf {folder}/tmp; ln -s {canary} {folder}/tmp
true
"""


def test_a_command_cannot_touch_what_the_worker_works_with(checkout: Checkout, canary: Path) -> None:
    """Its git directories, its other checkouts, the record of who made the sandbox, the folders' places."""
    if checkout.sandbox.isolation.level == PROCESS:
        return  # which says of itself that it keeps honest programs apart alone
    sandbox = checkout.sandbox
    before = sorted(path.name for path in sandbox.root.iterdir())
    run(checkout, PLANT.format(root=sandbox.root, folder=checkout.folder, canary=canary))
    assert sorted(path.name for path in sandbox.root.iterdir()) == before
    assert sorted(p.name for p in checkout.folder.iterdir()) == ["checkout", "home", "tmp"]
    assert not any(path.is_symlink() for path in checkout.folder.iterdir())
    (checkout.path / "new.txt").write_text("new\n")
    assert b"new.txt" in checkout.diff()
    assert sandbox.checkout("verify").path.is_dir()
    assert sorted(path.name for path in canary.iterdir()) == ["secret"]


def test_walls_cannot_be_taken_down_from_inside(checkout: Checkout, canary: Path) -> None:
    line = f"mount -o remount,rw / ; unshare -rm sh -c 'mount -o remount,rw /; touch {canary}/new'; true"
    run(checkout, line)
    walled = checkout.sandbox.isolation.level == NAMESPACE
    assert not walled or not (canary / "new").exists()


def test_status_signals_and_offspring_pass_through_the_walls(checkout: Checkout) -> None:
    assert run(checkout, "exit 7").exit_code == 7
    assert run(checkout, "kill -KILL $$").exit_code == 137
    assert run(checkout, "(setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; exit 3").exit_code == 3
    timed_out = run(checkout, "trap 'echo tidied; exit 4' TERM; while :; do sleep 0.05; done", seconds=1)
    assert (timed_out.exit_code, timed_out.timed_out) == (4, True)
    assert timed_out.output.endswith(b"tidied\n")  # some shells say before it what became of the sleep


HUNDRED = "i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done; wait"
# Each of the three stays below what one process may have.
HUNGRY = "for i in 1 2 3; do python3 -c 'import time; x = b\"x\" * (90 << 20); time.sleep(100)' & done; wait"
FILLING = "while :; do head -c 5000000 /dev/zero > f$i; i=x$i; done"


@pytest.mark.parametrize(("line", "limit"), [(HUNDRED, "processes"), (HUNGRY, "memory"), (FILLING, "disk")])
def test_a_command_over_its_limit_is_ended_and_the_limit_named(
    checkout: Checkout, line: str, limit: str
) -> None:
    result = run(checkout, line)
    assert result.limit == limit, result.output
    assert not result.ok
    assert f"over the limit on {limit}".encode() in result.output


def test_one_process_cannot_take_more_memory_than_the_limit(checkout: Checkout) -> None:
    result = run(checkout, "python3 -c 'bytearray(300 << 20)'")
    assert b"MemoryError" in result.output


def test_a_run_is_worked_on_behind_walls_and_says_so(
    plane: StandIn, work: Callable[..., None], best: Isolation
) -> None:
    work(isolation=best)
    assert plane.state.status == "SUCCEEDED"
    assert plane.payloads("worker_started")[0]["isolation"] == best.level
