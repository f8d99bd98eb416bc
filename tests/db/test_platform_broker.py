"""The folder broker never hands out half a message."""

from __future__ import annotations

import threading

from celery import Celery
from kombu.connection import Connection

from agentplatform import broker


def test_a_reader_beside_a_writer_gets_every_message_whole(tmp_path):
    broker.use()
    folder, control = tmp_path / "messages", tmp_path / "control"
    folder.mkdir()
    control.mkdir()
    options = {"data_folder_in": str(folder), "data_folder_out": str(folder), "control_folder": str(control)}
    count = 300
    got: list[int] = []

    def connection() -> Connection:
        return Celery("folder", broker="filesystem://", set_as_current=False).connection_for_write(
            transport_options=options
        )

    def read() -> None:
        with connection() as link:
            queue = link.SimpleQueue("nudges")
            while len(got) < count:
                message = queue.get(timeout=20)
                got.append(message.payload["n"])
                message.ack()

    reader = threading.Thread(target=read)
    with connection() as link:
        queue = link.SimpleQueue("nudges")
        reader.start()
        for n in range(count):
            queue.put({"n": n, "filler": "x" * 5_000})
    reader.join(timeout=60)
    assert sorted(got) == list(range(count))
    assert not list(folder.glob("*.unfinished"))
