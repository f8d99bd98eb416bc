"""Sign-in by password (locked after repeated failure)."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView

from runs.web import demo


class SignIn(LoginView):
    """The sign-in page; somebody signed in already goes on to where they wanted to be."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Adds the demonstration's accounts, where there is one."""
        return super().get_context_data(**kwargs, demo=demo.offer(self.request))
