"""The web process."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentplatform.settings")
# Only here: a pool outlives requests, but not the tasks and commands that would close it after each use.
os.environ["AGENTPLATFORM_PROCESS"] = "web"

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
