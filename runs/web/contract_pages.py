"""The contract while it is written: checked as one types, taken from a file, given back as one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from runs.auth import Principal, get_task
from runs.domain.contract import DEFAULTS, check_contract, normalise
from runs.domain.contract_file import MAX_BYTES, read_contract, write_contract
from runs.domain.errors import Invalid
from runs.domain.facts import Json
from runs.models import Repository
from runs.selectors.contract_check import contract_check
from runs.web.forms import ContractForm, VerifierRows, as_typed, contract_of
from runs.web.session import page, principal_of
from runs.web.task_form import may_ask_for, show_form


@page
@require_POST
def contract_as_typed(request: HttpRequest) -> HttpResponse:
    """What would become of the form as it stands; nothing is kept."""
    principal = principal_of(request)
    names = may_ask_for(principal)
    form, rows = ContractForm(request.POST, repositories=names), VerifierRows(request.POST, prefix="v")
    rows.is_valid()
    form.is_valid()
    named = request.POST.get("repository", "")
    where = Repository.objects.filter(name=named).first() if named in names else None
    found = contract_check(repository=where, data=contract_of(form, rows))
    return render(request, "runs/_contract_check.html", {"check": _in_words(form, found)})


def _in_words(form: ContractForm, found: Json) -> Json:
    def label(name: str) -> Json:
        field = form.beside(name)
        known = field in form.fields
        return {
            "label": form[field].label if known else name.replace("_", " ").capitalize(),
            "href": f"#{form[field].id_for_label}" if known else "#verifiers",
        }

    return {
        "missing": [label(name) for name in found["missing"]],
        "wrong": [{**label(name), "text": "; ".join(texts)} for name, texts in found["wrong"]],
        "reasons": found["reasons"],
    }


@page
@require_POST
def contract_from_file(request: HttpRequest) -> HttpResponse:
    """The form, filled from a file or from pasted text; what is wrong stands beside its field."""
    principal = principal_of(request)
    upload = request.FILES.get("file")
    pasted = request.POST.get("contract", "")
    data = upload.read(MAX_BYTES + 1) if upload else pasted.encode()
    try:
        given = read_contract(data)
    except Invalid as refusal:
        problem = f"The contract {refusal.errors['contract'][0]}."
        return _filled(request, principal, {}, problem=problem, pasted=data.decode(errors="replace"))
    return _filled(request, principal, given, pasted=pasted)


def _filled(
    request: HttpRequest, principal: Principal, given: Json, *, problem: str = "", pasted: str = ""
) -> HttpResponse:
    wrong = check_contract(normalise(given))
    contract = {name: DEFAULTS[name] if name in wrong else value for name, value in normalise(given).items()}
    initial, verifiers = as_typed(contract)
    form = ContractForm(initial=initial, repositories=may_ask_for(principal))
    known = {"repository": given.get("repository", "")} if given else {}
    said = [f"{name} {'; '.join(texts)}" for name, texts in wrong.items() if name in given]
    if known.get("repository") and known["repository"] not in may_ask_for(principal):
        said.append(f"repository {known['repository']} is not one that you may ask work in")
    more: Json = {"from_file": True, "file_problem": problem, "file_wrong": said, "pasted": pasted}
    rows = VerifierRows(initial=verifiers, prefix="v")
    return show_form(request, form, rows, status=422 if problem or said else 200, more=more)


@page
@require_safe
def contract_file(request: HttpRequest, task_id: str) -> HttpResponse:
    """A task's contract as a file that the form and the command take."""
    task = get_task(principal_of(request), task_id)
    headers = {"Content-Disposition": f'attachment; filename="{task.pk}.json"'}
    return HttpResponse(write_contract(task.contract), content_type="application/json", headers=headers)
