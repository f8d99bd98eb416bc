"""Django admin: people, workers, repositories and policies are managed here; histories are only read.

Nothing here writes a status: what moves a run is an event, and those come from the service alone.
"""

from django.contrib import admin
from django.contrib.auth.models import Group

from runs.admin import accounts, audit, histories, operations, policies, work  # noqa: F401  each registers its pages
from runs.admin.base import is_admin
from runs.admin.signin import to_sign_in

admin.site.site_header = "Agent Platform"
admin.site.site_title = "Agent Platform"
admin.site.index_title = "Administration"
admin.site.unregister(Group)  # roles are granted per person and repository, below each person
# The role of an admin everywhere, and nothing less: a staff flag alone opens nothing.
admin.site.has_permission = is_admin  # type: ignore[method-assign]
# One door: what guards the sign-in guards this one, too.
admin.site.login = to_sign_in  # type: ignore[method-assign]
