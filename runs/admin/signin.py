"""Admin has no sign-in of its own."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse


def to_sign_in(request: HttpRequest, extra_context: Any = None) -> HttpResponse:
    """Strangers go to the sign-in page and come back; those signed in without the right are told so."""
    wanted = request.GET.get("next", "") or request.get_full_path()
    if request.user.is_authenticated:
        raise PermissionDenied("Administration needs the role of an admin everywhere.")
    here = reverse("admin:login")
    return redirect_to_login(reverse("admin:index") if wanted.startswith(here) else wanted)
