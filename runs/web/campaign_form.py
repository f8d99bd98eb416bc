"""The form that starts a campaign: its contract, its repositories, its limits; first a look at what it would
do, then the start of exactly that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from runs import service
from runs.auth import Action, Principal, get_task, repositories_for, require_anywhere
from runs.domain.campaigns.limits import DEFAULTS
from runs.domain.campaigns.words import Completion
from runs.domain.contract import normalise
from runs.domain.errors import Invalid
from runs.domain.facts import Json, fingerprint
from runs.selectors.words import money
from runs.web.forms import ContractForm, VerifierRows, as_typed, contract_of, number_or_text
from runs.web.session import page, principal_of

_LIMITS: Final = ("first_wave", "growth", "failure_limit_percent", "pull_requests_per_hour", "max_cost_usd")
_NUMBER: Final = {"inputmode": "numeric"}
#: Repositories of a wave that the look names.
_MOST_NAMED: Final = 12


class CampaignForm(ContractForm):
    """A contract without its repository, and what a campaign has beside it."""

    repositories = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono", "data-draft": ""}),
        max_length=400_000,
        help_text="Names or patterns such as team-*, one a line, begun in this order. A line like !team-old*"
        " takes away what lines before it chose.",
    )
    first_wave = forms.CharField(
        max_length=6, initial=DEFAULTS["first_wave"], widget=forms.TextInput(attrs=_NUMBER),
        help_text="How many repositories are begun first. The next wave follows when all of them have ended.",
    )  # fmt: skip
    growth = forms.CharField(
        label="Growth", max_length=3, initial=DEFAULTS["growth"], widget=forms.TextInput(attrs=_NUMBER),
        help_text="Each further wave is so many times as large as the one before it.",
    )  # fmt: skip
    failure_limit_percent = forms.CharField(
        label="Stop at failures of, in %", max_length=4, initial=DEFAULTS["failure_limit_percent"],
        widget=forms.TextInput(attrs=_NUMBER),
        help_text="Of what was begun. Nothing more is begun then until somebody decides.",
    )  # fmt: skip
    pull_requests_per_hour = forms.CharField(
        label="Pull requests an hour", required=False, max_length=6, widget=forms.TextInput(attrs=_NUMBER),
        help_text="Empty: at any pace.",
    )  # fmt: skip
    max_cost_usd = forms.CharField(
        label="Cap of all tasks together, US dollars", required=False, max_length=20,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        help_text="A task is begun only while its own limit of US dollars still fits. Empty: no cap.",
    )  # fmt: skip
    completion = forms.ChoiceField(
        label="A repository is done when", choices=[(word.value, word.label) for word in Completion]
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, repositories=(), **kwargs)
        del self.fields["repository"]

    def show_errors(self, errors: Mapping[str, list[str]]) -> None:
        """A contract's fields are named with their path; here they stand beside the rest."""
        super().show_errors({name.removeprefix("contract."): texts for name, texts in errors.items()})


@page
@require_http_methods(["GET", "HEAD", "POST"])
def campaign_new(request: HttpRequest) -> HttpResponse:
    """The form, the look at what it would do, and the start."""
    principal = principal_of(request)
    require_anywhere(principal, Action.TASK_CREATE)
    if request.method == "POST":
        return _posted(request, principal)
    initial, verifiers = _begun(request, principal)
    return _show(request, CampaignForm(initial=initial), VerifierRows(initial=verifiers, prefix="v"))


def _begun(request: HttpRequest, principal: Principal) -> tuple[Json, list[Json]]:
    """Empty, or with the contract of a task that did well."""
    task_id = request.GET.get("from", "")
    contract = dict(get_task(principal, task_id).contract) if task_id else {}
    return as_typed(normalise(contract))


def _posted(request: HttpRequest, principal: Principal) -> HttpResponse:
    form, rows = CampaignForm(request.POST), VerifierRows(request.POST, prefix="v")
    if not (form.is_valid() & rows.is_valid()):
        return _show(request, form, rows, status=422)
    data, known = _data(form, rows), repositories_for(principal, Action.TASK_CREATE)
    digest = fingerprint(data)
    try:
        if request.POST.get("do") != "start" or request.POST.get("seen") != digest:
            plan = _look(service.campaign_plan(data=data, known=known))
            return _show(request, form, rows, more={"plan": plan, "seen": digest})
        key = request.POST.get("idempotency_key", "")[:255]
        made, _ = service.campaign_create(data=data, known=known, by=principal.caller, key=key)
    except Invalid as refusal:
        form.show_errors(refusal.errors)
        return _show(request, form, rows, status=422)
    messages.success(request, "Started. The first wave is begun within seconds.")
    return redirect("campaign", made.pk)


def _data(form: CampaignForm, rows: Any) -> Json:
    given = form.cleaned_data
    limits = {name: given[name].strip() or None for name in _LIMITS}
    numbers = {n: number_or_text(v) if v and n != "max_cost_usd" else v for n, v in limits.items()}
    lines = [line.strip() for line in given["repositories"].split("\n") if line.strip()]
    contract = contract_of(form, rows)
    return {"contract": contract, "repositories": lines, "completion": given["completion"], **numbers}


def _look(plan: service.CampaignPlan) -> Json:
    """What it would do, in words."""
    names, waves, start = [repository.name for repository in plan.repositories], [], 0
    for number, size in enumerate(plan.waves, start=1):
        shown = names[start : start + size][:_MOST_NAMED]
        waves.append({"number": number, "size": size, "names": ", ".join(shown), "more": size - len(shown)})
        start += size
    most, pace = plan.most_cost_usd, plan.limits["pull_requests_per_hour"]
    hours = -(-len(names) // pace) if pace else 0
    return {
        "count": len(names),
        "waves": waves,
        "cost": f"at most {money(most)}" if most is not None else "no limit but each task's own",
        "pace": f"at most {pace} an hour: {hours} h for all of them" if pace else "as they come",
    }


def _show(
    request: HttpRequest, form: CampaignForm, rows: Any, *, more: Json | None = None, status: int = 200
) -> HttpResponse:
    sent = request.POST.get("idempotency_key") if form.is_bound else ""
    context: Json = {"form": form, "rows": rows, "key": sent or uuid4().hex, **(more or {})}
    return render(request, "runs/campaign_form.html", context, status=status)
