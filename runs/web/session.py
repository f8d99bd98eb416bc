"""What every page does the same way: who asks, what they may not see, refusals in words, live parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied as DjangoDenies
from django.core.serializers.json import DjangoJSONEncoder
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from runs.auth import Principal, of_person
from runs.domain.errors import NotFound, PermissionDenied, Refusal
from runs.models import Person

View = Callable[..., HttpResponseBase]
_KEPT: Final = "_agentplatform_principal"


def principal_of(request: HttpRequest) -> Principal:
    """The signed-in person with their grants, read once for each request."""
    known: Principal | None = getattr(request, _KEPT, None)
    if known is None:
        if not isinstance(request.user, Person):
            raise Http404
        known = of_person(request.user)
        setattr(request, _KEPT, known)
    return known


def signed_in(view: View) -> View:
    """Ask strangers to sign in, and bring them back: after a POST to the page that its form stood on."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        return redirect_to_login(came_from(request) if request.method == "POST" else request.get_full_path())

    return answer


def page(view: View) -> View:
    """A page for people: signed in; what is not theirs to know is 404; a refusal is said where they were."""

    @signed_in
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except NotFound:
            raise Http404 from None
        except PermissionDenied as refusal:
            raise DjangoDenies(refusal.detail) from None
        except Refusal as refusal:
            messages.error(request, refusal.in_words)
            return redirect(came_from(request))

    return answer


def came_from(request: HttpRequest) -> str:
    """The page of ours that the form stood on, else home."""
    sent = urlsplit(request.headers.get("Referer", ""))
    ours = sent.netloc == request.get_host() and sent.path != request.path
    return sent.path + (f"?{sent.query}" if sent.query else "") if ours else reverse("home")


def show(request: HttpRequest, template: str, part: str, context: dict[str, Any]) -> HttpResponse:
    """The whole page, or its live ``part`` alone for a refresh: 304 when nothing that it shows has moved."""
    context["here"] = request.get_full_path()
    if not request.headers.get("HX-Request"):
        return render(request, template, context)
    text = json.dumps(context, cls=DjangoJSONEncoder, sort_keys=True, default=str)
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    answer = render(request, part, context)
    answer["ETag"], answer["Cache-Control"] = etag, "private, no-store"
    return answer
