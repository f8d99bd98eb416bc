"""What became of the work: the page, and the same as a table."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from runs.selectors.outcome_page import outcome_csv, outcome_page
from runs.web.session import page, principal_of


@page
@require_safe
def outcomes(request: HttpRequest) -> HttpResponse:
    """What became of the runs that ended lately."""
    found = outcome_page(principal=principal_of(request), params=request.GET.dict())
    return render(request, "runs/outcomes.html", found)


@page
@require_safe
def outcomes_as_csv(request: HttpRequest) -> HttpResponse:
    """The table of the page."""
    text = outcome_csv(principal=principal_of(request), params=request.GET.dict())
    headers = {"Content-Disposition": 'attachment; filename="outcomes.csv"'}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)
