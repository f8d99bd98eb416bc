"""Every entry point on one screen."""

from django.contrib import admin
from django.urls import include, path

from agentplatform import health

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("api/v1/", include("runs.api.urls")),
    path("admin/", admin.site.urls),
]

handler500 = "agentplatform.problem.server_error"
