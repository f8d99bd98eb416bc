"""The frame of the product: settings, database, processes and entry points."""

from agentplatform.celery import app as celery_app

__all__ = ["celery_app"]
