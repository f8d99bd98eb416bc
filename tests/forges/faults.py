"""What can go wrong between us and a forge: the same faults for every forge that is tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    """How one call fails; the value says it in a test's name."""

    REFUSED_CONNECTION = "the connection breaks before anything is done"
    LOST_ANSWER = "done, and the answer is lost"
    LATE = "done only after the caller gave up and looked again"
    ERROR_BEFORE = "5xx, and nothing is done"
    ERROR_AFTER = "5xx, and done all the same"
    HTML_AFTER = "done, and a proxy answers with a page of its own"
    RATE_LIMITED = "refused for now: too many requests"
    TWICE = "done, and said to be there already"


@dataclass
class Planned:
    """A fault for the next call of ``method`` whose path ends with ``path``."""

    method: str
    path: str
    fault: Fault
    times: int = 1
