"""The pages. GET looks, POST acts; each parses, asks a selector or the service, and renders."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from runs.actions import BULK, act_on_run, act_on_task
from runs.artifacts import artifact_open, digest_header
from runs.auth import get_run, get_task
from runs.domain.errors import Unavailable
from runs.models import Run
from runs.selectors.archived import require_log
from runs.selectors.diff import Look
from runs.selectors.events import event_lines
from runs.selectors.events import run_events as read_events
from runs.selectors.evidence import find_artifact, run_evidence, run_patch, run_report
from runs.selectors.export import runs_csv
from runs.selectors.figures import run_figures
from runs.selectors.fleet import lifecycle_page, worker_list
from runs.selectors.home import home_page
from runs.selectors.logs import run_log_page
from runs.selectors.repositories import repository_list, repository_page
from runs.selectors.run_page import result_tab, run_head
from runs.selectors.runs import run_list
from runs.selectors.steps import run_steps
from runs.selectors.task_page import task_page
from runs.selectors.tasks import task_list
from runs.selectors.timeline import run_timeline
from runs.vault import VaultAwayError
from runs.web.patches import look_choice
from runs.web.session import came_from, page, principal_of, show

#: Whatever the bytes are, a browser shall not run them.
_HARMLESS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=31536000, immutable",
}


@page
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What needs this person, what runs, what went wrong lately."""
    principal = principal_of(request)
    context = home_page(principal=principal)
    if not request.headers.get("HX-Request"):  # a refresh leaves the charts as they are
        context["figures"] = run_figures(principal=principal, params=request.GET.dict())
    return show(request, "home.html", "runs/_home.html", context)


@page
@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    """The list of tasks."""
    found = task_list(principal=principal_of(request), params=request.GET.dict()) | {"bulk": BULK}
    return show(request, "runs/tasks.html", "runs/_tasks.html", found)


@page
@require_safe
def task(request: HttpRequest, task_id: str) -> HttpResponse:
    """One task."""
    principal = principal_of(request)
    found = task_page(task=get_task(principal, task_id), principal=principal)
    return show(request, "runs/task.html", "runs/_task.html", {"task": found})


@page
@require_POST
def task_action(request: HttpRequest, task_id: str, action: str) -> HttpResponse:
    """One of the task's buttons."""
    principal = principal_of(request)
    found = get_task(principal, task_id)
    said, to = act_on_task(task=found, name=action, principal=principal, data=request.POST)
    messages.success(request, said)
    return redirect(to or _back(request, reverse("task", args=[task_id])))


@page
@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The list of runs."""
    found = run_list(principal=principal_of(request), params=request.GET.dict())
    return show(request, "runs/list.html", "runs/_list.html", found)


@page
@require_safe
def runs_as_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The runs of the list as a table, however many; ``X-Rows`` says how many there will be."""
    count, pieces = runs_csv(principal=principal_of(request), params=request.GET.dict())
    headers = {"Content-Disposition": 'attachment; filename="runs.csv"', "X-Rows": str(count)}
    return StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8", headers=headers)


@page
@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    """One run, with the tab that the address names."""
    principal = principal_of(request)
    found, tab = get_run(principal, run_id), request.GET.get("tab", "timeline")
    tab = result_tab(found) if tab == "result" else tab
    context = {"run": run_head(run=found, principal=principal, tab=tab), **_tab(found, tab, request)}
    return show(request, "runs/run.html", "runs/_run.html", context)


def _tab(found: Run, tab: str, request: HttpRequest) -> dict[str, Any]:
    params = request.GET.dict()
    if tab == "timeline":
        return {"tab": tab, "timeline": run_timeline(run=found, params=params)}
    if tab == "steps":
        return {"tab": tab, **run_steps(run=found, params=params)}
    if tab == "patch":
        look = Look.of(request.GET, request.COOKIES)
        return {"tab": tab, **run_patch(run=found, look=look), "look": look_choice(request, look)}
    if tab == "report":
        return {"tab": tab, **run_report(run=found)}
    if tab == "evidence":
        return {"tab": tab, "evidence": run_evidence(run=found)}
    if tab == "events":
        return {"tab": tab, "log": read_events(run=found, params=params)}
    raise Http404


@page
@require_POST
def run_action(request: HttpRequest, run_id: str, action: str) -> HttpResponse:
    """One of the run's buttons."""
    principal = principal_of(request)
    found = get_run(principal, run_id)
    said, to = act_on_run(run=found, name=action, principal=principal, data=request.POST)
    messages.success(request, said)
    return redirect(to or _back(request, reverse("run", args=[run_id])))


def _back(request: HttpRequest, otherwise: str) -> str:
    """Where the button stood, when that was a page of ours."""
    return came_from(request) if request.headers.get("Referer") else otherwise


@page
@require_safe
def run_events(request: HttpRequest, run_id: str) -> HttpResponse:
    """Events behind a sentence: as a part for the timeline, else on the tab of the run's page."""
    found = get_run(principal_of(request), run_id)
    if not request.headers.get("HX-Request"):
        return redirect(f"{reverse('run', args=[run_id])}?tab=events&{request.GET.urlencode()}")
    return render(request, "runs/_events.html", {"log": read_events(run=found, params=request.GET.dict())})


@page
@require_safe
def run_log(request: HttpRequest, run_id: str) -> StreamingHttpResponse:
    """The whole log as JSON Lines."""
    found = get_run(principal_of(request), run_id)
    require_log(found)
    name = f'attachment; filename="{found.pk}.jsonl"'
    return StreamingHttpResponse(
        event_lines(run=found), content_type="application/x-ndjson", headers={"Content-Disposition": name}
    )


@page
@require_safe
def step_log(request: HttpRequest, run_id: str, operation_id: str) -> HttpResponse:
    """The output of one step: its end while it grows, or the lines that hold a word."""
    found = get_run(principal_of(request), run_id)
    log = run_log_page(run=found, operation_id=operation_id, params=request.GET.dict())
    return show(request, "runs/log_page.html", "runs/_log_page.html", {"run": found, "log": log})


@page
@require_safe
def artifact(request: HttpRequest, artifact_id: str) -> FileResponse:
    """The bytes of an artifact, as an attachment."""
    found = find_artifact(principal=principal_of(request), artifact_id=artifact_id)
    try:
        content = artifact_open(found)
    except FileNotFoundError:
        raise Http404 from None
    except VaultAwayError:
        raise Unavailable("The store of artifacts is away; try again in a while.") from None
    name = f"{found.kind}-{found.sha256[:10]}"
    return FileResponse(content, as_attachment=True, filename=name, content_type="application/octet-stream",
                        headers={**_HARMLESS, "Content-Length": str(found.size),
                                 "Repr-Digest": digest_header(found)})  # fmt: skip


@page
@require_safe
def repositories(request: HttpRequest) -> HttpResponse:
    """The repositories."""
    found = repository_list(principal=principal_of(request), params=request.GET.dict())
    return render(request, "runs/repositories.html", found)


@page
@require_safe
def repository(request: HttpRequest, name: str) -> HttpResponse:
    """One repository and the policy in force."""
    found = repository_page(principal=principal_of(request), name=name)
    return render(request, "runs/repository.html", {"repository": found})


@page
@require_safe
def workers(request: HttpRequest) -> HttpResponse:
    """Who is alive, holds what, since when."""
    found = worker_list(principal=principal_of(request))
    return show(request, "runs/workers.html", "runs/_workers.html", found)


@page
@require_safe
def lifecycle(request: HttpRequest) -> HttpResponse:
    """The state machine, with what stands where."""
    found = lifecycle_page(principal=principal_of(request))
    return show(request, "runs/lifecycle.html", "runs/_lifecycle.html", found)


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Where browsers look unasked, as on pages that name no icon."""
    return redirect(static("favicon.svg"))
