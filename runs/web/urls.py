"""Addresses of the pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from runs.web import (
    accounts,
    bulk,
    campaign_form,
    campaigns,
    contract_pages,
    demo,
    holds,
    patches,
    task_form,
    views,
)
from runs.web.patterns import patterns

urlpatterns = [
    path("", views.home, name="home"),
    path("favicon.ico", views.favicon),
    path("tasks/", views.tasks, name="tasks"),
    path("tasks/new/", task_form.task_new, name="task_new"),
    path("tasks/new/check/", contract_pages.contract_as_typed, name="contract_check"),
    path("tasks/new/file/", contract_pages.contract_from_file, name="contract_from_file"),
    path("tasks/bulk/", bulk.tasks_bulk, name="tasks_bulk"),
    path("tasks/<str:task_id>/", views.task, name="task"),
    path("tasks/<str:task_id>/contract.json", contract_pages.contract_file, name="contract_file"),
    path("tasks/<str:task_id>/edit/", task_form.task_edit, name="task_edit"),
    path("tasks/<str:task_id>/<slug:action>/", views.task_action, name="task_action"),
    path("runs/", views.runs, name="runs"),
    path("runs/export.csv", views.runs_as_csv, name="runs_csv"),
    path("runs/<str:run_id>/", views.run, name="run"),
    path("runs/<str:run_id>/events/", views.run_events, name="run_events"),
    path("runs/<str:run_id>/events.jsonl", views.run_log, name="run_log"),
    path("runs/<str:run_id>/logs/<path:operation_id>/", views.step_log, name="step_log"),
    path("runs/<str:run_id>/<slug:action>/", views.run_action, name="run_action"),
    path("artifacts/<str:artifact_id>/", views.artifact, name="artifact"),
    path("artifacts/<str:artifact_id>/files/<int:index>/", patches.patch_file, name="patch_file"),
    path("artifacts/<str:artifact_id>/files/<int:index>/around/", patches.patch_around, name="patch_around"),
    path("repositories/", views.repositories, name="repositories"),
    path("repositories/<path:name>/", views.repository, name="repository"),
    path("workers/", views.workers, name="workers"),
    path("campaigns/", campaigns.campaigns, name="campaigns"),
    path("campaigns/new/", campaign_form.campaign_new, name="campaign_new"),
    path("campaigns/<str:campaign_id>/", campaigns.campaign, name="campaign"),
    path("campaigns/<str:campaign_id>/<slug:action>/", campaigns.campaign_action, name="campaign_action"),
    path("holds/", holds.holds, name="holds"),
    path("holds/<str:hold_id>/lift/", holds.hold_lift, name="hold_lift"),
    path("lifecycle/", views.lifecycle, name="lifecycle"),
    path("patterns/", patterns, name="patterns"),
    path("accounts/login/", accounts.SignIn.as_view(), name="login"),
    path("accounts/me/", accounts.account, name="account"),
    path("accounts/me/sessions/end/", accounts.session_end, name="session-end"),
    path("accounts/me/password/", accounts.password_change, name="password-change"),
    path("accounts/me/tokens/", accounts.token_add, name="token-add"),
    path(
        "accounts/me/tokens/<str:token_id>/revoke/",
        accounts.token_act,
        {"act": "revoke"},
        name="token-revoke",
    ),
    path(
        "accounts/me/tokens/<str:token_id>/renew/", accounts.token_act, {"act": "renew"}, name="token-renew"
    ),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("accounts/demo/<slug:name>/", demo.demo_sign_in, name="demo_sign_in"),
]
