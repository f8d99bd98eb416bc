"""Assign and snooze from the review page; what they mean is in ``approvals.asking.assign``."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from agentplatform.clock import database_now
from approvals.asking.assign import approval_assign, approval_snooze, require_turner
from approvals.desk import get_request
from approvals.forms import read_snooze
from approvals.notices.words import moment_words
from runs.web.session import page, principal_of


@page
@require_POST
def approval_assignment(request: HttpRequest, approval_id: str) -> HttpResponse:
    """Make it somebody's turn, or give it back."""
    principal, to = principal_of(request), request.POST.get("to", "").strip()
    require_turner(get_request(approval_id, principal), principal)
    approval_assign(approval_id=approval_id, to=to, by=principal)
    messages.success(request, f"Assigned to {to}." if to else "Given back to those who were asked first.")
    return _see_other(approval_id)


@page
@require_POST
def approval_snooze_form(request: HttpRequest, approval_id: str) -> HttpResponse:
    """Put it off, or end that."""
    principal = principal_of(request)
    require_turner(get_request(approval_id, principal), principal)
    length = read_snooze(request.POST)
    until = database_now() + length if length else None
    approval_snooze(approval_id=approval_id, until=until, by=principal)
    said = f"Put off until {moment_words(until)}. Its clock goes on." if until else "Back in its place."
    messages.success(request, said)
    return _see_other(approval_id)


def _see_other(approval_id: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse("approval", args=[approval_id]), status=303)
