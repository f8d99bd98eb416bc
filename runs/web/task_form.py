"""The form of a task: make one, edit a draft, change what may change of an active one."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from runs import service
from runs.auth import Action, Principal, get_task, may, require, require_anywhere, visible_repositories
from runs.domain.contract import normalise
from runs.domain.errors import DuplicateTask, Invalid, NotFound
from runs.domain.facts import Json
from runs.domain.starts import STARTS
from runs.domain.vocabulary import TaskStatus
from runs.models import Repository, Task
from runs.web.forms import ContractForm, VerifierRows, as_typed, contract_of, with_kept_agent
from runs.web.session import page, principal_of


@page
@require_http_methods(["GET", "HEAD", "POST"])
def task_new(request: HttpRequest) -> HttpResponse:
    """Make a task: kept as a draft, or queued at once."""
    principal = principal_of(request)
    names = may_ask_for(principal)
    if request.method != "POST":
        initial, verifiers = _begun(request, principal)
        form = ContractForm(initial=initial, repositories=names)
        return show_form(request, form, VerifierRows(initial=verifiers, prefix="v"))
    form, rows = ContractForm(request.POST, repositories=names), VerifierRows(request.POST, prefix="v")
    made = _create(request, form, rows, principal) if form.is_valid() & rows.is_valid() else None
    return redirect("task", made.pk) if made else show_form(request, form, rows, status=422)


def may_ask_for(principal: Principal) -> list[str]:
    """Names of the repositories that this person may make tasks for."""
    require_anywhere(principal, Action.TASK_CREATE)
    rows = Repository.objects.filter(archived_at__isnull=True).order_by("name")
    ids = visible_repositories(principal)
    found = rows if ids is None else rows.filter(pk__in=ids)
    return [row.name for row in found if may(principal, Action.TASK_CREATE, row.pk)]


def _create(request: HttpRequest, form: ContractForm, rows: Any, principal: Principal) -> Task | None:
    data = contract_of(form, rows) | {"submit": "submit" in request.POST}
    repository = Repository.objects.filter(name=data["repository"]).first()
    if repository is None:
        raise NotFound
    require(principal, Action.TASK_CREATE, repository.pk)
    key = request.POST.get("idempotency_key", "")[:255]
    try:
        made, _ = service.task_create(data=data, repository=repository, by=principal.caller, key=key)
    except Invalid as refusal:
        form.show_errors(refusal.errors)
        return None
    except DuplicateTask as refusal:
        form.add_error(None, refusal.detail)
        return None
    rejected = made.status == TaskStatus.REJECTED
    said = (
        "Rejected; the reasons stand below." if rejected else "Queued." if data["submit"] else "Draft kept."
    )
    (messages.warning if rejected else messages.success)(request, said)
    return made


def _begun(request: HttpRequest, principal: Principal) -> tuple[Json, list[Json]]:
    """What the form begins with: a start by name, another task as template, or a repository."""
    fields: Json = {}
    if task_id := request.GET.get("from", ""):
        fields = dict(get_task(principal, task_id).contract)
    elif name := request.GET.get("start", ""):
        fields = next((dict(start.fields) for start in STARTS if start.name == name), {})
    initial, verifiers = as_typed(normalise(fields))
    chosen = {"repository": request.GET["repository"]} if request.GET.get("repository") else {}
    return {**initial, **chosen}, verifiers


def show_form(
    request: HttpRequest,
    form: ContractForm,
    rows: Any,
    *,
    task: Task | None = None,
    status: int = 200,
    more: Json | None = None,
) -> HttpResponse:
    """The form of a contract; ``more`` is what a file said."""
    context: Json = {"form": form, "rows": rows, "task": task, "key": uuid4().hex, "starts": STARTS}
    context |= more or {}
    if form.is_bound and (sent := request.POST.get("idempotency_key")):
        context["key"] = sent
    return render(request, "runs/task_form.html", context, status=status)


class PriorityForm(forms.Form):
    """All that an active task may still change."""

    priority = forms.IntegerField(min_value=0, max_value=9, help_text="0 to 9; 9 goes first.")
    labels = forms.CharField(required=False, help_text="For people’s filters, separated by commas.")


@page
@require_http_methods(["GET", "HEAD", "POST"])
def task_edit(request: HttpRequest, task_id: str) -> HttpResponse:
    """Edit a draft, or the priority and labels of an active task."""
    principal = principal_of(request)
    task = get_task(principal, task_id)
    own = task.created_by_id == principal.id
    require(principal, Action.TASK_OPERATE, task.repository_id, own=own)
    if task.status == TaskStatus.DRAFT:
        return _edit_draft(request, task, principal)
    return _edit_priority(request, task, principal)


def _edit_draft(request: HttpRequest, task: Task, principal: Principal) -> HttpResponse:
    names = [task.repository.name]
    if request.method != "POST":
        initial, verifiers = as_typed(task.contract)
        form = ContractForm(initial=initial, repositories=names)
        return show_form(request, form, VerifierRows(initial=verifiers, prefix="v"), task=task)
    form, rows = ContractForm(request.POST, repositories=names), VerifierRows(request.POST, prefix="v")
    if form.is_valid() & rows.is_valid():
        try:
            data = with_kept_agent(contract_of(form, rows), task.contract["agent"])
            service.task_edit(task_id=task.pk, data=data, by=principal.caller)
        except Invalid as refusal:
            form.show_errors(refusal.errors)
        else:
            messages.success(request, "Draft saved.")
            return redirect("task", task.pk)
    return show_form(request, form, rows, task=task, status=422)


def _edit_priority(request: HttpRequest, task: Task, principal: Principal) -> HttpResponse:
    initial = {"priority": task.priority, "labels": ", ".join(task.labels)}
    form = PriorityForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        labels = [label.strip() for label in form.cleaned_data["labels"].split(",") if label.strip()]
        data = {"priority": form.cleaned_data["priority"], "labels": labels}
        try:
            service.task_edit(task_id=task.pk, data=data, by=principal.caller)
        except Invalid as refusal:
            for name, texts in refusal.errors.items():
                form.add_error(name if name in form.fields else None, texts)
        else:
            messages.success(request, "Saved.")
            return redirect("task", task.pk)
    status = 422 if form.is_bound else 200
    return render(request, "runs/task_priority.html", {"form": form, "task": task}, status=status)
