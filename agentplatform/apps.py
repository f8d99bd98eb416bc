from __future__ import annotations

from django.apps import AppConfig, apps
from django.conf import settings
from django.db.models.signals import post_migrate


class AgentPlatformConfig(AppConfig):
    name = "agentplatform"
    verbose_name = "Agent Platform"

    def ready(self) -> None:
        from agentplatform import checks as _checks  # noqa: F401  importing registers them
        from agentplatform import tracing, wiring
        from agentplatform.database import grant_after_migrate

        wiring.connect()
        if settings.TRACES_ENDPOINT:
            tracing.configure(endpoint=settings.TRACES_ENDPOINT, service="agentplatform")

        # Once, when all apps are migrated: the signal is sent per app, after the last migration.
        owner_of_tables = apps.get_app_config(settings.AUTH_USER_MODEL.split(".")[0])
        post_migrate.connect(grant_after_migrate, sender=owner_of_tables, dispatch_uid="agentplatform.grants")
