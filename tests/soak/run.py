"""`make soak`: the product under even load for a long time, watched for what only time shows.

Starts a product of its own in a folder of its own, on 127.0.0.1, and prints a table. Ends with 1 when memory,
tables or the outbox grow, or a transaction idles.

    python tests/soak/run.py --seconds 7200
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.chaos.world import World, calm_down, world  # noqa: E402  the path comes first
from tests.soak.samples import Sample, look, verdicts  # noqa: E402

#: Samples of a soak, whatever its length; a quarter of it is warm-up.
SAMPLES = 40
#: Before it, so many tasks, within so many seconds.
WARM_UP_TASKS, LONGEST_WARM_UP = 8, 600.0


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what it started as Ctrl-C does
    with _folder() as folder, world(folder) as here:
        _warm_up(here)
        print(Sample.HEAD, flush=True)
        samples = list(_samples(here, seconds=options.seconds))
        calm = calm_down(here, seconds=300)
        left = here.undelivered()
    print(f"\nCalm {calm:.0f} s after the last task was asked for; undelivered: {left}.")
    failed = [*verdicts(samples), *here.load.errors]
    if left:
        failed.append(f"{left} messages are still in the outbox")
    if here.load.tasks:
        failed.append(f"{len(here.load.tasks)} tasks have not ended")
    for line in failed:
        print(f"FAILED: {line}")
    print("" if failed else "Level: memory, tables, outbox and transactions.")
    sys.exit(1 if failed else 0)


def _warm_up(here: World) -> None:
    """Until all kinds of work were done twice: what is done first loads what it takes."""
    ends = time.monotonic() + LONGEST_WARM_UP
    while here.load.counts["tasks ended"] < WARM_UP_TASKS and time.monotonic() < ends:
        here.keep_machines()
        time.sleep(0.2)


def _samples(here: World, *, seconds: int) -> Iterator[Sample]:
    began = time.monotonic()
    for number in range(1, SAMPLES + 1):
        while time.monotonic() - began < seconds * number / SAMPLES:
            here.keep_machines()
            time.sleep(0.2)
        sample = look(here, at=time.monotonic() - began)
        print(sample, flush=True)
        yield sample


@contextmanager
def _folder() -> Iterator[Path]:
    # Short: a socket's path has an end. Open: the database runs as another account where this one is root.
    folder = Path(tempfile.mkdtemp(prefix="agentplatform-soak-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=7200, help="default: 7200")
    return parser.parse_args()


if __name__ == "__main__":
    main()
