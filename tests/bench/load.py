"""Load over HTTP from one process: keep-alive connections, requests as ready bytes, no client library.

The generator shares the machine with the server, so it has to be cheap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

#: (connection's number, request's number) → the request's bytes.
Requests = Callable[[int, int], bytes]


@dataclass
class Result:
    """What a load made of it: seconds it took, milliseconds of each answer, statuses that were not wanted."""

    seconds: float
    times: list[float] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Wanted answers per second."""
        return len(self.times) / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds that this share of the answers took at most."""
        return sorted(self.times)[min(int(len(self.times) * share), len(self.times) - 1)]


def request(method: str, path: str, *, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{k}: {v}" for k, v in headers.items())]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def run(port: int, requests: Requests, *, connections: int, seconds: float, wanted: int) -> Result:
    """Each connection asks, waits for the answer, and asks again until the time is over."""
    return asyncio.run(_run(port, requests, connections, seconds, wanted))


async def _run(port: int, requests: Requests, connections: int, seconds: float, wanted: int) -> Result:
    result = Result(0.0)
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(connections):
            group.create_task(
                _client(port, requests, number, until=begun + seconds, wanted=wanted, result=result)
            )
    result.seconds = time.perf_counter() - begun
    return result


async def _client(
    port: int, requests: Requests, number: int, *, until: float, wanted: int, result: Result
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < until:
        asked = time.perf_counter()
        writer.write(requests(number, count))
        status, lives = await _answer(reader)
        count += 1
        if status == wanted:
            result.times.append((time.perf_counter() - asked) * 1000)
        else:
            result.refused[status] = result.refused.get(status, 0) + 1
        if not lives:
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    status = int(lines[0].split()[1])
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
    if length is not None:
        await reader.readexactly(length)
    elif b"transfer-encoding: chunked" in lines:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readuntil(b"\r\n")
    return status, b"connection: close" not in lines
