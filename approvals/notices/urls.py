"""Addresses of the pages of notices, below ``/notifications/``."""

from django.urls import path

from approvals.notices import web

urlpatterns = [
    path("", web.notifications, name="notifications"),
    path("read/", web.notices_read, name="notices-read"),
    path("settings/", web.notice_settings, name="notice-settings"),
    path("away/", web.away_add, name="away-add"),
    path("away/<str:absence_id>/end/", web.away_end, name="away-end"),
]
