"""Addresses of the approval pages, below ``/approvals/``."""

from django.urls import path

from approvals import turns, web

urlpatterns = [
    path("", web.approvals, name="approvals"),
    path("bulk/", web.approvals_bulk, name="approvals-bulk"),
    path("<str:approval_id>/", web.approval, name="approval"),
    path("<str:approval_id>/standing/", web.approval_standing, name="approval-standing"),
    path("<str:approval_id>/decision/", web.approval_decision, name="approval-decision"),
    path("<str:approval_id>/waiver/", web.approval_waiver, name="approval-waiver"),
    path("<str:approval_id>/assign/", turns.approval_assignment, name="approval-assign"),
    path("<str:approval_id>/snooze/", turns.approval_snooze_form, name="approval-snooze"),
]
