"""The app of tasks, runs and everything that moves them."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    """Tasks and runs."""

    name = "runs"
    verbose_name = "Tasks and runs"
