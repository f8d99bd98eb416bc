"""What can go wrong between a worker and the control plane, as exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class WorkerError(Exception):
    """Something the worker has to react to."""


class Unavailable(WorkerError):  # noqa: N818  named by what happened
    """The control plane could not be reached, or said "later", for as long as patience lasts."""


class BadAnswer(WorkerError):  # noqa: N818  named by what happened
    """The control plane answered with something that is not in the contract."""


class Refused(WorkerError):  # noqa: N818  named by what happened
    """The control plane refused the call: `code` of the problem document, `problem` all of it."""

    def __init__(self, code: str, problem: Mapping[str, Any]) -> None:
        detail = problem.get("detail") or problem.get("title") or ""
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.problem = dict(problem)


class LeaseLost(Refused):
    """The lease is no longer the active one: stop at once, post nothing, claim again."""

    def __init__(self, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__("lease_lost", problem or {})


class DirectivePending(Refused):
    """A person asked for something else; `directive` says what."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__("directive_pending", problem)
        self.directive = str(problem.get("directive") or "cancel")


def refusal(code: str, problem: Mapping[str, Any]) -> Refused:
    """The exception of a problem document's code."""
    if code == "lease_lost":
        return LeaseLost(problem)
    if code == "directive_pending":
        return DirectivePending(problem)
    return Refused(code, problem)
