"""Every entry point on one screen."""

from django.contrib import admin
from django.urls import path

from agentplatform import health

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("admin/", admin.site.urls),
]
