"""Every entry point on one screen."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path

from agentplatform import health, problem, reference

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("api/v1/", include("runs.api.urls")),
    path("api/v1/", include("approvals.api")),
    path("webhooks/", include("runs.api.webhooks")),
    path("api/schema/", reference.schema, name="schema"),
    path("api/docs/", reference.reference, name="api-docs"),
    re_path("^api/", problem.nothing_here),
    path("admin/", admin.site.urls),
    path("approvals/", include("approvals.urls")),
    path("notifications/", include("approvals.notices.urls")),
    path("", include("runs.web.urls")),
]
if settings.EXTRA.is_on:
    urlpatterns.append(path("", include("runs.web.sso_urls")))

handler500 = "agentplatform.problem.server_error"
