"""Refusals: the ways in which the control plane says no (REST contract, "Errors").

The class docstring is the message for people; ``code`` is what callers act on; keyword
arguments become fields of the problem document. ``agentplatform.problem`` maps code to status.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Refusal(Exception):  # noqa: N818  a refusal is an answer, not a fault
    """Refused."""

    code: ClassVar[str] = "refused"

    def __init__(self, detail: str = "", **extra: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip().splitlines()[0]
        self.extra = extra
        super().__init__(self.detail)

    @property
    def in_words(self) -> str:
        """The sentence for a page: of a form's errors the first of each field, of guards those that fail."""
        fields = self.extra.get("errors") or {}
        named = "; ".join(f"{name} {texts[0]}" for name, texts in fields.items())
        failed = [str(guard["name"]) for guard in self.extra.get("guards") or () if not guard["passed"]]
        return named or self.detail + (f" Failing: {', '.join(failed)}." if failed else "")


class Malformed(Refusal):
    """The body is not strict JSON; mend it and send it again."""

    code = "malformed"


class IdempotencyKeyMissing(Refusal):
    """Send an Idempotency-Key header: 1 to 255 visible ASCII characters, new for each new request."""

    code = "idempotency_key_missing"


class NotAuthenticated(Refusal):
    """Send a valid token or sign in."""

    code = "not_authenticated"


class ActorNotAllowed(Refusal):
    """This caller's roles may not post this event."""

    code = "actor_not_allowed"


class ApprovalForbidden(Refusal):
    """You may not decide this request."""

    code = "approval_forbidden"


class PermissionDenied(Refusal):
    """Your role does not allow this."""

    code = "permission_denied"


class NotFound(Refusal):
    """There is nothing here, or it is not yours to know."""

    code = "not_found"


class IllegalTransition(Refusal):
    """The run's status does not take this event."""

    code = "illegal_transition"


class RunTerminal(Refusal):
    """The run has ended; nothing moves it any more. Make a new run instead."""

    code = "run_terminal"


class LeaseLost(Refusal):
    """This lease is not the active one, or it has expired; stop, and claim again."""

    code = "lease_lost"


class SequenceConflict(Refusal):
    """The run has moved on since you read it; read it again."""

    code = "sequence_conflict"


class OffsetConflict(Refusal):
    """The log does not end there; go on from the offset that is named."""

    code = "offset_conflict"


class GuardFailed(Refusal):
    """The evidence does not hold."""

    code = "guard_failed"


class BudgetExhausted(Refusal):
    """This would go beyond the run's budget."""

    code = "budget_exhausted"


class HistoryLimit(Refusal):
    """The run's log is full: hand in what there is, or end the run."""

    code = "history_limit"


class LogArchived(Refusal):
    """The log of this run is in an archive; nothing is added to it any more."""

    code = "log_archived"


class DirectivePending(Refusal):
    """The run was asked to stop or pause; this is not taken any more."""

    code = "directive_pending"


class ApprovalSuperseded(Refusal):
    """What was shown has changed since; review what is there now."""

    code = "approval_superseded"


class ApprovalDecided(Refusal):
    """Somebody has decided this already."""

    code = "approval_decided"


class ApprovalClosed(Refusal):
    """This request is closed; nothing was decided."""

    code = "approval_closed"


class DuplicateTask(Refusal):
    """An unfinished task with this dedupe_key exists for the repository."""

    code = "duplicate_task"


class NotAllowedNow(Refusal):
    """That is not possible in the present state."""

    code = "not_allowed_now"


class TooLarge(Refusal):
    """The body is too large."""

    code = "too_large"


class UnsupportedMediaType(Refusal):
    """This content type is not understood here."""

    code = "unsupported_media_type"


class Invalid(Refusal):
    """Some fields are not right; each is named with what to do."""

    code = "invalid"

    def __init__(self, errors: dict[str, list[str]], detail: str = "") -> None:
        super().__init__(detail, errors=errors)
        self.errors = errors


class IdempotencyKeyReused(Refusal):
    """This Idempotency-Key belongs to another request; use a new key."""

    code = "idempotency_key_reused"


class NotAPatch(Refusal):
    """This is not a patch that git can apply; make it with git diff --binary."""

    code = "not_a_patch"


class UnsafePath(Refusal):
    """The patch names a path that is never allowed."""

    code = "unsafe_path"


class AmbiguousPatch(Refusal):
    """Git reads this patch otherwise than it is written."""

    code = "ambiguous_patch"


class Throttled(Refusal):
    """Too many requests; wait and try again."""

    code = "throttled"


class Unavailable(Refusal):
    """The control plane cannot answer just now; try again with the same key."""

    code = "unavailable"


def all_refusals() -> list[type[Refusal]]:
    """Each refusal, in the order of this page."""
    return list(Refusal.__subclasses__())
