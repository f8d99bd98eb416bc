"""The app of approval requests."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """Approvals."""

    name = "approvals"
