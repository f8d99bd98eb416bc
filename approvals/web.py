"""The pages of approvals. GET and HEAD look; only POST decides."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import conditional_page, require_POST, require_safe

from approvals import forms
from approvals.desk import get_request
from approvals.models import ApprovalRequest
from approvals.pages import Asked, Review, read_review, review_context, unread_of
from approvals.pages.review import successor_of
from approvals.remarks import Draft, place_again
from approvals.rows import may_bulk, queue_context
from approvals.selectors import COUNTED, read_entries, read_queue, visible_requests
from approvals.service import DecisionOutcome, approval_decide, approval_waive
from runs.auth import Principal
from runs.domain.errors import ApprovalSuperseded, Invalid, NotFound, Refusal
from runs.domain.vocabulary import ApprovalStatus, DecisionWord
from runs.selectors.diff import Look
from runs.web.patches import look_choice
from runs.web.session import principal_of, signed_in

_STATUS: Final = {"malformed": 400, "invalid": 422, "approval_forbidden": 403, "permission_denied": 403}
#: What stands below a refusal: the request as it is now, or the one that took its place.
_NOW_SHOWN: Final = {
    False: "This is what the request shows now: read it, and decide again.",
    True: "This page shows the newer request now, with what changed and with your comment.",
}
_DONE: Final = {
    DecisionWord.APPROVE: "Approved.",
    DecisionWord.EDIT: "Approved with your values.",
    DecisionWord.REQUEST_CHANGES: "Changes requested. Your comment is the task's next instruction.",
    DecisionWord.REJECT: "Rejected.",
}


def _principal(request: HttpRequest) -> Principal:
    return principal_of(request)


def _find(principal: Principal, approval_id: str) -> ApprovalRequest:
    try:
        return get_request(approval_id, principal)
    except NotFound:
        raise Http404 from None


@signed_in
@require_safe
@conditional_page
def approvals(request: HttpRequest) -> HttpResponse:
    """The queue; with ``part=queue`` its live part alone."""
    queue = read_queue(_principal(request))
    setattr(request, COUNTED, queue.counts["yours"])
    context = queue_context(queue)
    part = request.GET.get("part") == "queue"
    return render(request, "approvals/_queue.html" if part else "approvals/queue.html", context)


@signed_in
@require_safe
def approval(request: HttpRequest, approval_id: str) -> HttpResponse:
    """The review page."""
    principal = _principal(request)
    review = read_review(_find(principal, approval_id), principal)
    return _page(request, review, Asked(_look(request), _site(request)))


def _page(request: HttpRequest, review: Review, posed: Asked, status: int = 200) -> HttpResponse:
    context = review_context(review, posed) | {"look": look_choice(request, posed.look)}
    setattr(request, COUNTED, (context["head"]["place"] or {}).get("of", 0))
    return render(request, "approvals/review.html", context, status=status)


def _look(request: HttpRequest) -> Look:
    return Look.of(request.GET, request.COOKIES)


def _site(request: HttpRequest) -> str:
    return request.build_absolute_uri("/").rstrip("/")


@signed_in
@require_safe
@conditional_page
def approval_standing(request: HttpRequest, approval_id: str) -> HttpResponse:
    """Whether what the page shows still holds; the live part of the review page."""
    principal = _principal(request)
    entry = read_entries([_find(principal, approval_id)], principal)[0]
    found = entry.request
    shown = (request.GET.get("version"), request.GET.get("subject_sha256"))
    context = {
        "request_id": found.pk,
        "shown": {"version": shown[0], "subject_sha256": shown[1]},
        "changed": shown != (str(found.version), found.subject_sha256),
        "closed": entry.closed,
        "successor": successor_of(found) if entry.closed else "",
    }
    return render(request, "approvals/_standing.html", context)


@signed_in
@require_POST
def approval_decision(request: HttpRequest, approval_id: str) -> HttpResponse:
    """One person's word. 303 when it is recorded, or was before; else the page with the reason."""
    principal = _principal(request)
    asked = _find(principal, approval_id)
    try:
        posted = forms.read_decision(request.POST, asked)
        unread = _check_read(request, asked, principal)
        outcome = approval_decide(approval_id=approval_id, by=principal, unread=unread, **posted)
    except Refusal as refusal:
        return _refused(request, principal, approval_id, refusal)
    _tell(request, outcome)
    return _see_other("approval", approval_id)


def _check_read(request: HttpRequest, asked: ApprovalRequest, principal: Principal) -> int:
    """How many files an approval leaves unopened; ``Invalid`` while the reviewer has not said so."""
    if request.POST.get("decision") != DecisionWord.APPROVE or asked.status != ApprovalStatus.OPEN:
        return 0
    unread = unread_of(read_review(asked, principal), request.POST.getlist("seen"))
    if unread and request.POST.get("unread") != "on":
        raise Invalid({"unread": [f"{_files(unread)} not opened; read on, or say so beside the button"]})
    return unread


def _files(unread: int) -> str:
    return "1 file of this patch was" if unread == 1 else f"{unread} files of this patch were"


@signed_in
@require_POST
def approval_waiver(request: HttpRequest, approval_id: str) -> HttpResponse:
    """Waive one guard, by name, with a reason."""
    principal = _principal(request)
    _find(principal, approval_id)
    try:
        posted = forms.read_waiver(request.POST)
        approval_waive(approval_id=approval_id, by=principal, **posted)
    except Refusal as refusal:
        return _refused(request, principal, approval_id, refusal)
    messages.success(request, "Waived. Your name and reason are recorded with it.")
    return _see_other("approval", approval_id)


@signed_in
@require_POST
def approvals_bulk(request: HttpRequest) -> HttpResponse:
    """Approve several low-risk patches: one decision and one event each, by the same checks."""
    principal = _principal(request)
    chosen = forms.read_bulk(request.POST)
    found = visible_requests(principal).filter(pk__in=[item["approval_id"] for item in chosen])
    allowed = {entry.request.pk for entry in read_entries(list(found), principal) if may_bulk(entry)}
    approved = 0
    for item in chosen:
        if item["approval_id"] not in allowed:
            messages.error(request, "One of them is not yours to approve together with others; open it.")
            continue
        try:
            approval_decide(decision=DecisionWord.APPROVE, by=principal, **item)
            approved += 1
        except Refusal as refusal:
            messages.error(request, f"Not approved: {refusal.detail}")
    if approved:
        messages.success(request, f"{approved} approved.")
    return _see_other("approvals")


def _tell(request: HttpRequest, outcome: DecisionOutcome) -> None:
    if outcome.replayed:
        word = DecisionWord(outcome.decision.decision).label.lower()
        at = f"{outcome.decision.at:%Y-%m-%d %H:%M} UTC"
        messages.info(request, f"You had decided this already at {at}: {word}.")
    elif outcome.votes_missing:
        people = "1 more person" if outcome.votes_missing == 1 else f"{outcome.votes_missing} more people"
        messages.success(request, f"Your approval is recorded; {people} must approve.")
    else:
        messages.success(request, _DONE[DecisionWord(outcome.decision.decision)])


def _refused(request: HttpRequest, principal: Principal, approval_id: str, refusal: Refusal) -> HttpResponse:
    """What is to be decided now, with the reason why nothing was and with all that was typed.

    Where a newer request stands in its place, that one is shown: what changed, and the comment carried over.
    """
    current = refusal.extra.get("approval_id") if isinstance(refusal, ApprovalSuperseded) else ""
    review = read_review(_find(principal, str(current or approval_id)), principal)
    seen = tuple(request.POST.getlist("seen"))
    remarks, homeless = _remarks_again(request, principal, approval_id, review)
    moved = bool(current) and current != approval_id
    error = f"{_words(refusal)} {_NOW_SHOWN[moved]}" if current else _words(refusal)
    comment = forms.typed(request.POST, homeless)
    posed = Asked(_look(request), _site(request), error, comment, seen, remarks)
    return _page(request, review, posed, _STATUS.get(refusal.code, 409))


def _remarks_again(
    request: HttpRequest, principal: Principal, approval_id: str, review: Review
) -> tuple[list[Draft], list[Draft]]:
    """What was written about lines: where it still stands beside one, and what has no place any more."""
    drafts = forms.typed_remarks(request.POST)
    if not drafts or review.entry.closed:
        return [], drafts
    posted_to = review
    if review.request.pk != approval_id:
        posted_to = read_review(_find(principal, approval_id), principal)
    return place_again(drafts, posted_to.subject, review.subject)


def _words(refusal: Refusal) -> str:
    if isinstance(refusal, Invalid):
        parts = [f"{name.replace('_', ' ')}: {'; '.join(texts)}" for name, texts in refusal.errors.items()]
        return f"Nothing was decided: {'. '.join(parts)}."
    return f"Nothing was decided. {refusal.detail}"


def _see_other(name: str, *args: str) -> HttpResponseRedirect:
    """303: a reload of the answer asks for the page, it does not decide again."""
    return HttpResponseRedirect(reverse(name, args=args), status=303)
