"""The client library: the whole of the REST contract that an agent needs, and nothing of an agent.

    plane = ControlPlane(url=…, token=…)
    claim = plane.claim(roles=[], labels=[], wait_seconds=20, key=uuid4().hex)
    leased = plane.leased(claim.lease)
    with Heartbeat(leased):
        leased.post("worker_started", {"worker_version": "1"})

Every call repeats itself safely, under the same key. `LeaseLost` and `DirectivePending` are raised
where the control plane says so; the heartbeat knows both between two calls.
"""

from worker.client.errors import BadAnswer, DirectivePending, LeaseLost, Refused, Unavailable, WorkerError
from worker.client.heartbeat import Heartbeat
from worker.client.plane import ControlPlane, LeasedRun, read_token
from worker.client.protocol import Answer, Artifact, Claim, Lease, Resume
from worker.client.transport import Patience

__all__ = [
    "Answer",
    "Artifact",
    "BadAnswer",
    "Claim",
    "ControlPlane",
    "DirectivePending",
    "Heartbeat",
    "Lease",
    "LeaseLost",
    "LeasedRun",
    "Patience",
    "Refused",
    "Resume",
    "Unavailable",
    "WorkerError",
    "read_token",
]
