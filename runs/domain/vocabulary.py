"""The words of the product: statuses, events, roles, gates, failures (lifecycle contract, sections 1 to 7).

Every page, answer, trigger and document reads these; none spells a word of its own.
Each member carries a ``label`` (for people) and, where it helps, one ``sentence``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self


class Word(StrEnum):
    """A member with a label and a sentence for people."""

    label: str
    sentence: str

    def __new__(cls, value: str, label: str = "", sentence: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label or value.replace("_", " ").capitalize()
        member.sentence = sentence
        return member


class Role(Word):
    """The capacity in which a caller acts (lifecycle contract, section 4)."""

    WORKER = "worker", "Worker", "Leases queued runs and prepares their sandbox."
    AGENT_RUNTIME = "agent_runtime", "Agent runtime", "Plans and edits inside the sandbox."
    VERIFIER = "verifier", "Verifier", "Runs the contract's commands on the patch."
    JUDGE = "judge", "Judge", "Says whether the patch does what was asked."
    GIT_INTEGRATION = "git_integration", "Git integration", "Turns an approved patch into a branch."
    CONTROL_PLANE = "control_plane", "Control plane", "The product itself."
    SCHEDULER = "scheduler", "Scheduler", "Queues runs and notices what is overdue."
    POLICY = "policy", "Policy", "Decides by rules what may go on by itself."
    HUMAN = "human", "Person", "Somebody who signed in."


MACHINE_ROLES: Final = (
    Role.WORKER,
    Role.AGENT_RUNTIME,
    Role.VERIFIER,
    Role.JUDGE,
    Role.GIT_INTEGRATION,
)


class PersonRole(Word):
    """What a person may do (lifecycle contract, section 16)."""

    VIEWER = "viewer", "Viewer", "Reads."
    SUBMITTER = "submitter", "Submitter", "Makes tasks, cancels own, answers questions."
    REVIEWER = "reviewer", "Reviewer", "Decides approvals."
    OPERATOR = "operator", "Operator", "Cancels, pauses, retries, sets holds, waives guards."
    ADMIN = "admin", "Admin", "Everything, with Django admin."


class TaskStatus(Word):
    """A request's life (lifecycle contract, section 2)."""

    DRAFT = "DRAFT", "Draft", "Created but not submitted."
    SUBMITTED = "SUBMITTED", "Submitted", "Taken in."
    VALIDATING = "VALIDATING", "Validating", "The contract is checked against the policy."
    READY = "READY", "Ready", "Fit to have a run."
    RUNNING = "RUNNING", "Running", "A run is active or scheduled."
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL", "Waiting for approval", "A person must decide."
    COMPLETED = "COMPLETED", "Completed", "Ended with a valid result."
    FAILED = "FAILED", "Failed", "Ended without one; no retry is left."
    REJECTED = "REJECTED", "Rejected", "Refused before any run."
    CANCELLED = "CANCELLED", "Cancelled", "Stopped on request."


TASK_FINAL: Final = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.REJECTED, TaskStatus.CANCELLED}
)


class RunStatus(Word):
    """One execution's life (lifecycle contract, section 3)."""

    CREATED = "CREATED", "Created", "The run exists and has its number; it is not queued yet."
    QUEUED = "QUEUED", "Queued", "Ready; the next free worker takes it."
    LEASED = "LEASED", "Leased", "A worker took it and has not started yet."
    PREPARING = "PREPARING", "Preparing", "The sandbox is being made; nothing is edited yet."
    CONTEXT_BUILDING = (
        "CONTEXT_BUILDING",
        "Building context",
        "The repository is checked out at a recorded commit; nothing is edited yet.",
    )
    PLANNING = "PLANNING", "Planning", "The agent writes down what it will touch and check."
    EXECUTING = "EXECUTING", "Executing", "The agent works; every tool call is a step."
    PATCH_READY = "PATCH_READY", "Patch ready", "There is a patch; nothing has checked it yet."
    VERIFYING = "VERIFYING", "Verifying", "The contract's commands run on the patch."
    JUDGING = "JUDGING", "Judging", "A judge compares the result with what was asked."
    WAITING_FOR_APPROVAL = (
        "WAITING_FOR_APPROVAL",
        "Waiting for approval",
        "A person decides; nothing may change what is shown.",
    )
    PR_CREATING = (
        "PR_CREATING",
        "Opening the pull request",
        "The approved patch becomes a branch with one commit.",
    )
    PR_CREATED = "PR_CREATED", "Pull request open", "The branch is pushed and recorded."
    SUCCEEDED = "SUCCEEDED", "Succeeded", "Ended with a valid result."
    FAILED = "FAILED", "Failed", "Ended with a classified failure."
    CANCELLED = "CANCELLED", "Cancelled", "Stopped on request."
    EXPIRED = "EXPIRED", "Expired", "The system lost certainty; nothing was proved wrong."

    @property
    def is_terminal(self) -> bool:
        """Whether nothing may leave this status, by any path."""
        return self in TERMINAL


S = RunStatus
TERMINAL: Final = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED, S.EXPIRED})
ACTIVE: Final = tuple(s for s in RunStatus if s not in TERMINAL)

#: Who owns a status. A transition into a status that the holder's roles do not own ends the lease.
OWNER: Final[dict[RunStatus, Role]] = {
    S.CREATED: Role.CONTROL_PLANE,
    S.QUEUED: Role.WORKER,
    S.LEASED: Role.WORKER,
    S.PREPARING: Role.WORKER,
    S.CONTEXT_BUILDING: Role.WORKER,
    S.PLANNING: Role.AGENT_RUNTIME,
    S.EXECUTING: Role.AGENT_RUNTIME,
    S.PATCH_READY: Role.VERIFIER,
    S.VERIFYING: Role.VERIFIER,
    S.JUDGING: Role.JUDGE,
    S.WAITING_FOR_APPROVAL: Role.HUMAN,
    S.PR_CREATING: Role.GIT_INTEGRATION,
    S.PR_CREATED: Role.CONTROL_PLANE,
    S.SUCCEEDED: Role.CONTROL_PLANE,
    S.FAILED: Role.CONTROL_PLANE,
    S.CANCELLED: Role.CONTROL_PLANE,
    S.EXPIRED: Role.CONTROL_PLANE,
}

#: Statuses that a claim may take, and by which role. LEASED is claimed by nobody: losing it expires the run.
CLAIMABLE: Final[dict[RunStatus, Role]] = {
    status: OWNER[status]
    for status in (
        S.QUEUED,
        S.PREPARING,
        S.CONTEXT_BUILDING,
        S.PLANNING,
        S.EXECUTING,
        S.PATCH_READY,
        S.VERIFYING,
        S.JUDGING,
        S.PR_CREATING,
    )
}
LEASED_STATUSES: Final = frozenset({S.LEASED, *CLAIMABLE} - {S.QUEUED})


class Ev(Word):
    """Every event type (lifecycle contract, sections 4.1 and 4.2)."""

    RUN_CREATED = "run_created", "Run created"
    RUN_ENQUEUED = "run_enqueued", "Queued"
    LEASE_ACQUIRED = "lease_acquired", "Leased"
    LEASE_RELEASED = "lease_released", "Lease given back"
    WORKER_STARTED = "worker_started", "Worker started"
    SANDBOX_READY = "sandbox_ready", "Sandbox ready"
    CONTEXT_READY = "context_ready", "Context ready"
    PLAN_CREATED = "plan_created", "Plan made"
    PATCH_CREATED = "patch_created", "Patch made"
    REPORT_CREATED = "report_created", "Report made"
    VERIFICATION_STARTED = "verification_started", "Checks started"
    VERIFICATION_FAILED_RETRYABLE = "verification_failed_retryable", "Checks failed"
    VERIFICATION_PASSED = "verification_passed", "Checks passed"
    JUDGE_PASSED = "judge_passed", "Judge passed"
    JUDGE_REQUIRES_FIX = "judge_requires_fix", "Judge asks for a fix"
    AUTO_PR_ALLOWED = "auto_pr_allowed", "Pull request allowed by policy"
    HUMAN_APPROVAL_REQUIRED = "human_approval_required", "A person must decide"
    APPROVED = "approved", "Approved"
    CHANGES_REQUESTED = "changes_requested", "Changes requested"
    REJECTED = "rejected", "Rejected"
    PR_CREATED = "pr_created", "Pull request opened"
    PR_CREATION_FAILED = "pr_creation_failed", "Opening the pull request failed"
    COMPLETION_CONDITION_MET = "completion_condition_met", "Completion condition met"
    CANCEL_REQUESTED = "cancel_requested", "Cancel requested"
    RUN_CANCELLED = "run_cancelled", "Cancelled"
    NON_RETRYABLE_FAILURE = "non_retryable_failure", "Failed"
    TIMEOUT = "timeout", "Timed out"
    LEASE_LOST = "lease_lost", "Worker lost"
    ATTEMPT_STARTED = "attempt_started", "Attempt started"
    ATTEMPT_FINISHED = "attempt_finished", "Attempt finished"
    MODEL_DECISION = "model_decision", "Model decided"
    TOOL_REQUESTED = "tool_requested", "Tool requested"
    TOOL_COMPLETED = "tool_completed", "Tool completed"
    CHECKPOINT_SAVED = "checkpoint_saved", "Checkpoint saved"
    QUESTION_ASKED = "question_asked", "Question asked"
    RUN_INTERRUPTED = "run_interrupted", "Paused by the worker"
    PAUSE_REQUESTED = "pause_requested", "Pause requested"
    WIND_DOWN_REQUESTED = "wind_down_requested", "Wind-down requested"
    RUN_RESUMED = "run_resumed", "Resumed"
    INSTRUCTION_ADDED = "instruction_added", "Instruction added"
    PRIORITY_CHANGED = "priority_changed", "Priority changed"
    BUDGET_RAISED = "budget_raised", "Budget raised"
    GUARD_WAIVED = "guard_waived", "Guard waived"
    VOTE_RECORDED = "vote_recorded", "Vote recorded"
    DIRECTIVE_SEEN = "directive_seen", "Directive seen by the worker"
    POLICY_EVALUATED = "policy_evaluated", "Guards evaluated"
    RETRY_SCHEDULED = "retry_scheduled", "Retry scheduled"
    RETRY_DECLINED = "retry_declined", "No retry"
    CLEANUP_REPORTED = "cleanup_reported", "Clean-up reported"
    NOTE_ADDED = "note_added", "Note"


class TaskEv(Word):
    """Moves of a task, logged like those of a run (lifecycle contract, section 2)."""

    TASK_CREATED = "task_created", "Task made"
    TASK_EDITED = "task_edited", "Task edited"
    TASK_SUBMITTED = "task_submitted", "Submitted"
    VALIDATION_STARTED = "validation_started", "Checked against the policy"
    TASK_ACCEPTED = "task_accepted", "Accepted"
    TASK_REJECTED = "task_rejected", "Rejected"
    RUN_SCHEDULED = "run_scheduled", "Run scheduled"
    PERSON_NEEDED = "person_needed", "A person is needed"
    WORK_RESUMED = "work_resumed", "Work goes on"
    TASK_COMPLETED = "task_completed", "Completed"
    TASK_FAILED = "task_failed", "Failed"
    TASK_CANCELLED = "task_cancelled", "Cancelled"
    INSTRUCTION_ADDED = "instruction_added", "Instruction added"
    PRIORITY_CHANGED = "priority_changed", "Priority or labels changed"
    TASK_ARCHIVED = "task_archived", "Archived"
    TASK_RESTORED = "task_restored", "Restored"


class Gate(Word):
    """Why a run waits for a person."""

    PLAN = "plan", "Plan", "Is this what should be done?"
    PATCH = "patch", "Patch", "May this patch become a pull request?"
    TOOL_CALL = "tool_call", "Tool call", "May the agent make this call?"
    BUDGET = "budget", "Budget", "May it cost more?"
    QUESTION = "question", "Question", "The agent asks."


class Directive(Word):
    """What the run's people want of its worker."""

    CONTINUE = "continue", "Continue"
    PAUSE = "pause", "Pause"
    WIND_DOWN = "wind_down", "Finish up"
    CANCEL = "cancel", "Stop"


#: A directive gives way only to a higher one: cancel beats wind-down beats pause.
DIRECTIVE_RANK: Final = {d: n for n, d in enumerate(Directive)}


class CompletionMode(Word):
    """When a task counts as done."""

    PR_CREATED = "pr_created", "Pull request"
    PATCH_READY_FOR_REVIEW = "patch_ready_for_review", "Patch for review"
    ANALYSIS_REPORT_CREATED = "analysis_report_created", "Analysis report"


class Risk(Word):
    """How much care a task needs."""

    LOW = "low", "Low"
    MEDIUM = "medium", "Medium"
    HIGH = "high", "High"
    CRITICAL = "critical", "Critical"

    @property
    def rank(self) -> int:
        """0 (low) to 3 (critical)."""
        return list(Risk).index(self)


class FailureCategory(Word):
    """Classes of failure; the retry matrix decides by them (lifecycle contract, section 7)."""

    INFRASTRUCTURE = "INFRASTRUCTURE", "Infrastructure"
    REPOSITORY_ACCESS = "REPOSITORY_ACCESS", "Repository access"
    POLICY_DENIED = "POLICY_DENIED", "Denied by policy"
    PLANNING_FAILED = "PLANNING_FAILED", "Planning failed"
    TOOL_FAILED = "TOOL_FAILED", "Tool failed"
    VERIFICATION_FAILED = "VERIFICATION_FAILED", "Checks failed"
    JUDGE_REJECTED = "JUDGE_REJECTED", "Judge rejected"
    REVIEW_REJECTED = "REVIEW_REJECTED", "Reviewer rejected"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED", "Budget exceeded"
    PR_CREATION_FAILED = "PR_CREATION_FAILED", "Pull request failed"
    USER_CANCELLED = "USER_CANCELLED", "Cancelled by a person"
    UNKNOWN = "UNKNOWN", "Unknown"


class AttemptState(Word):
    """One strategy's life."""

    STARTED = "STARTED", "Started"
    SUCCEEDED = "SUCCEEDED", "Succeeded"
    FAILED = "FAILED", "Failed"
    ABORTED = "ABORTED", "Aborted"


class StepState(Word):
    """One action's life."""

    PENDING = "PENDING", "Pending"
    RUNNING = "RUNNING", "Running"
    SUCCEEDED = "SUCCEEDED", "Succeeded"
    FAILED = "FAILED", "Failed"
    TIMED_OUT = "TIMED_OUT", "Timed out"
    SKIPPED = "SKIPPED", "Skipped"


class Outcome(Word):
    """How a run ended or why it pauses (lifecycle contract, section 12)."""

    COMPLETED = "completed", "Completed"
    APPROVAL_REQUIRED = "approval_required", "Approval required"
    BUDGET_EXHAUSTED = "budget_exhausted", "Budget exhausted"
    FAILED = "failed", "Failed"
    INTERRUPTED = "interrupted", "Interrupted"
    CANCELLED = "cancelled", "Cancelled"
    TIMED_OUT = "timed_out", "Timed out"
    ESCALATED = "escalated", "Escalated"


class ArtifactKind(Word):
    """Kinds of evidence."""

    PLAN = "plan", "Plan"
    CONTEXT = "context", "Context"
    PATCH = "patch", "Patch"
    VERIFICATION_REPORT = "verification_report", "Verification report"
    JUDGE_REPORT = "judge_report", "Judge report"
    ANALYSIS_REPORT = "analysis_report", "Analysis report"
    CHECKPOINT = "checkpoint", "Checkpoint"
    LOG = "log", "Log"
    OUTPUT = "output", "Output"


class PullRequestState(Word):
    """A pull request's own life (lifecycle contract, section 13)."""

    OPEN = "OPEN", "Open"
    UPDATED = "UPDATED", "Updated"
    REVIEW_REQUESTED = "REVIEW_REQUESTED", "Review requested"
    CHANGES_REQUESTED = "CHANGES_REQUESTED", "Changes requested"
    APPROVED = "APPROVED", "Approved"
    MERGED = "MERGED", "Merged"
    CLOSED = "CLOSED", "Closed"


class ApprovalStatus(Word):
    """An approval request's life."""

    OPEN = "open", "Open"
    APPROVED = "approved", "Approved"
    CHANGES_REQUESTED = "changes_requested", "Changes requested"
    REJECTED = "rejected", "Rejected"
    SUPERSEDED = "superseded", "Superseded"
    CANCELLED = "cancelled", "Cancelled"
    EXPIRED = "expired", "Expired"


class DecisionWord(Word):
    """What a person may say at a gate."""

    APPROVE = "approve", "Approve"
    REQUEST_CHANGES = "request_changes", "Request changes"
    REJECT = "reject", "Reject"
    EDIT = "edit", "Edit"
