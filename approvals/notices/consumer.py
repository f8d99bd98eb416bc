"""What domain events make people hear of: tasks that ended or are stuck, gates that opened.

Called by the relay, in order within a task or run, perhaps twice: what was told is not told again.
"""

from __future__ import annotations

from typing import Final

from django.urls import reverse

from approvals.asking.ask import ask
from approvals.asking.eligible import people_with
from approvals.models import ApprovalRequest
from approvals.notices import campaigns
from approvals.notices.tell import News, settle, tell
from approvals.notices.words import Kind, failure_words, one_line
from runs.auth import Action, may, of_person
from runs.domain.facts import Json
from runs.domain.vocabulary import ApprovalStatus, CompletionMode, PersonRole
from runs.models import Hold, Person, RunEvent, Task, TaskEvent
from runs.outbox import Message

_TASKS: Final = frozenset(
    {"TaskCompleted", "TaskFailed", "TaskRejected", "TaskWaiting", "TaskRunning", "TaskCancelled"}
)
_HOLDS: Final = frozenset({"HoldSet", "HoldLifted"})
WANTED: Final = frozenset({"RunApprovalRequired", *_TASKS, *_HOLDS, *campaigns.WANTED})
#: Reading CODEOWNERS may fetch from the repository.
CLAIM_SECONDS: Final = 60.0

_LEFT: Final = {
    CompletionMode.PR_CREATED: "Its pull request is open.",
    CompletionMode.PATCH_READY_FOR_REVIEW: "Its patch is ready for download.",
    CompletionMode.ANALYSIS_REPORT_CREATED: "Its report is written.",
}


def hear(message: Message) -> None:
    """Tell whoever should hear of this event."""
    if message.name == "RunApprovalRequired":
        event = RunEvent.objects.get(run_id=message.stream, sequence=message.sequence)
        ask(event.payload["approval_id"])
        return
    if message.name in _HOLDS:
        _hear_of_hold(message)
        return
    if message.name in campaigns.WANTED:
        campaigns.hear_of_campaign(message)
        return
    _hear_of_task(message)


def _hear_of_task(message: Message) -> None:
    task = Task.objects.select_related("created_by", "repository").filter(pk=message.stream).first()
    if task is None:
        return
    facts = TaskEvent.objects.get(task_id=task.pk, sequence=message.sequence).facts
    if message.name != "TaskWaiting":
        settle(task.pk, "It goes on." if message.name == "TaskRunning" else "It is over.")
    match message.name:
        case "TaskCompleted":
            _tell_owner(task, message, Kind.COMPLETED, _LEFT[CompletionMode(task.completion_mode)])
        case "TaskFailed":
            said, likeness = failure_words(facts)
            _tell_owner(task, message, Kind.FAILED, said, likeness)
        case "TaskRejected":
            _tell_owner(task, message, Kind.FAILED, _rejected(facts), "rejected")
        case "TaskCancelled" if _timed_out(facts):
            said = (
                "Nobody decided in time, and by policy the run was cancelled. Run it again if it is wanted."
            )
            _tell_owner(task, message, Kind.FAILED, said, "approval_timeout")
        case "TaskWaiting" if facts.get("blocked"):
            _tell_blocked(task, message, facts["blocked"])


def _hear_of_hold(message: Message) -> None:
    """A hold that set itself blocks a repository: its operators hear of it, once."""
    if message.name == "HoldLifted":
        settle(message.stream, "It was lifted.")
        return
    hold = Hold.objects.select_related("repository").filter(pk=message.stream).first()
    if hold is None or hold.repository is None or not message.payload["automatic"]:
        return
    where = hold.repository
    news = News(
        cause=f"{hold.pk}:{message.sequence}",
        kind=Kind.BLOCKED,
        subject=hold.pk,
        title=f"{where.name} is on hold",
        sentence=f"{hold.reason}. No run of it begins until the hold ends or is lifted.",
        href=reverse("holds"),
        repository_id=where.pk,
    )
    roles = (PersonRole.OPERATOR, PersonRole.ADMIN)
    tell(news, dict.fromkeys(people_with(roles, where.pk), f"You operate {where.name}."))


def _rejected(facts: Json) -> str:
    reasons = [one_line(str(reason), 160) for reason in facts.get("reasons") or ()]
    more = f" And {len(reasons) - 1} more." if len(reasons) > 1 else ""
    return f"The contract was rejected: {reasons[0]}{more}" if reasons else "The contract was rejected."


def _timed_out(facts: Json) -> bool:
    return ApprovalRequest.objects.filter(
        run_id=facts.get("run_id", ""), status=ApprovalStatus.EXPIRED
    ).exists()


def _tell_owner(task: Task, message: Message, kind: Kind, sentence: str, likeness: str = "") -> None:
    """Who asked for it, if they still have a role there; of a campaign's task the campaign tells."""
    if task.campaign_id:
        return
    whom = {task.created_by: "You asked for this task."} if _sees(task.created_by, task) else {}
    tell(_news(task, message, kind, sentence, likeness), whom)


def _tell_blocked(task: Task, message: Message, blocked: Json) -> None:
    """Whose move it is: who asked for it, if they may mend it; else the operators there."""
    said, _ = failure_words(blocked)
    advice = (
        "Say when access is renewed." if blocked["rule"] == "access_to_renew" else "Retry it or cancel it."
    )
    owner = task.created_by
    if owner.is_active and may(of_person(owner), Action.TASK_OPERATE, task.repository_id, own=True):
        whom = {owner: "You asked for this task."}
    else:
        roles = (PersonRole.OPERATOR, PersonRole.ADMIN)
        why = f"You operate {task.repository.name}, and {owner}, who asked for this, may not."
        whom = dict.fromkeys(people_with(roles, task.repository_id), why)
    tell(_news(task, message, Kind.BLOCKED, f"{said} {advice}", f"blocked {blocked['rule']} {said}"), whom)


def _sees(person: Person, task: Task) -> bool:
    return person.is_active and may(of_person(person), Action.READ, task.repository_id)


def _news(task: Task, message: Message, kind: Kind, sentence: str, likeness: str) -> News:
    return News(
        cause=f"{task.pk}:{message.sequence}",
        kind=kind,
        subject=task.pk,
        title=task.title,
        sentence=sentence,
        href=reverse("task", args=[task.pk]),
        repository_id=task.repository_id,
        likeness=likeness and f"{task.repository_id} {likeness}"[:200],
    )
