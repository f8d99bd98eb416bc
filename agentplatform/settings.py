"""All settings, from the environment; what is missing or wrong is refused at start, by name."""

from __future__ import annotations

import os
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from celery.schedules import crontab
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.crypto import salted_hmac

from agentplatform import database, demonstration, logs, object_store, sign_in
from agentplatform.environment import Environment, counters_folder, kept_secret, made_private
from agentplatform.postgres import Server
from agentplatform.variables import BASE_DIR, ENVIRONMENT

env = Environment(ENVIRONMENT, os.environ)
PRODUCTION = env.choice("AGENTPLATFORM_ENV", ("development", "production")) == "production"
PROCESS = env.choice("AGENTPLATFORM_PROCESS", ("web", "command"))
if PRODUCTION:
    env.require_for_production()

# --- Files -----------------------------------------------------------------

DATA_DIR = Path(env.text("AGENTPLATFORM_DATA_DIR")).expanduser().resolve()
ARTIFACT_DIR = DATA_DIR / "artifacts"
ARCHIVE_DIR = DATA_DIR / "archives"
MIRROR_DIR = DATA_DIR / "mirrors"
SANDBOX_DIR = DATA_DIR / "sandboxes"
BROKER_DIR = DATA_DIR / "broker"
KEY_DIR = DATA_DIR / "keys"

# Read when a repository is talked to, so that a new token holds at once; secrets stay out of the settings.
REPOSITORY_CREDENTIALS = env.text("REPOSITORY_CREDENTIALS")

# --- Keys ------------------------------------------------------------------

SECRET_KEY = env.text("SECRET_KEY") or kept_secret(KEY_DIR / "secret_key")
EVENT_CHAIN_KEY = env.text("EVENT_CHAIN_KEY") or kept_secret(KEY_DIR / "event_chain_key")
LEASE_TOKEN_KEY = (
    env.text("LEASE_TOKEN_KEY")
    or salted_hmac("agentplatform.lease-token", "1", secret=SECRET_KEY, algorithm="sha256").hexdigest()
)

# --- Django ----------------------------------------------------------------

DEBUG = False
ALLOWED_HOSTS = env.items("ALLOWED_HOSTS")
PUBLIC_URL = env.text("AGENTPLATFORM_URL").rstrip("/")
if PUBLIC_URL and not (urlsplit(PUBLIC_URL).scheme in {"http", "https"} and urlsplit(PUBLIC_URL).netloc):
    raise ImproperlyConfigured(f"AGENTPLATFORM_URL must be an http(s) address; it is {PUBLIC_URL!r}.")
DEMO = env.flag("AGENTPLATFORM_DEMO")
DEMO_REFUSED = demonstration.why_refused(
    production=PRODUCTION, allowed_hosts=ALLOWED_HOSTS, public_url=PUBLIC_URL
)
if DEMO and DEMO_REFUSED:
    raise ImproperlyConfigured(f"AGENTPLATFORM_DEMO is on. {DEMO_REFUSED}")
ROOT_URLCONF = "agentplatform.urls"
WSGI_APPLICATION = "agentplatform.wsgi.application"
AUTH_USER_MODEL = "runs.Person"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

EXTRA = sign_in.configure(
    issuer=env.text("OIDC_ISSUER"),
    client_id=env.text("OIDC_CLIENT_ID"),
    client_secret=env.text("OIDC_CLIENT_SECRET"),
    name=env.text("OIDC_NAME"),
    second_factors=env.flag("SECOND_FACTORS"),
    production=PRODUCTION,
)
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "pgtrigger",
    "django_htmx",
    "csp",
    "axes",
    "agentplatform",
    "runs",
    "approvals",
    *EXTRA.apps,
]

TRACES_ENDPOINT = env.text("OTEL_EXPORTER_OTLP_ENDPOINT")
MIDDLEWARE = [
    *(["agentplatform.tracing.TraceMiddleware"] if TRACES_ENDPOINT else []),
    "agentplatform.middleware.RequestLogMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "agentplatform.middleware.PermissionsPolicyMiddleware",
    "agentplatform.middleware.BodyLimitMiddleware",
    "agentplatform.middleware.NulMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    *EXTRA.middleware,
    "axes.middleware.AxesMiddleware",  # last: it answers for the sign-in that was refused further in
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "agentplatform.navigation.nav",
            ]
        },
    }
]

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
if env.text("ARTIFACT_STORE_URL"):
    STORAGES["artifacts"] = object_store.storage(env.text("ARTIFACT_STORE_URL"))
# In development files are served from where they are written, without collectstatic.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = not PRODUCTION

# Event bodies: 1 MiB (API contract, "Errors"). Artifacts are streamed and bounded by their own endpoint.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1000
ARTIFACT_MAX_BYTES = 64 * 1024 * 1024
CIRCUIT_BREAKER_FAILURES = env.number("CIRCUIT_BREAKER_FAILURES")
CIRCUIT_BREAKER_WINDOW_SECONDS = env.number("CIRCUIT_BREAKER_WINDOW_SECONDS", minimum=1)
CIRCUIT_BREAKER_HOLD_SECONDS = env.number("CIRCUIT_BREAKER_HOLD_SECONDS", minimum=1)
RUN_MAX_EVENTS = env.number("RUN_MAX_EVENTS", minimum=100)
RUN_MAX_LOG_BYTES = env.number("RUN_MAX_LOG_BYTES", minimum=1024 * 1024)
EVENT_PARTITION_DAYS = env.number("EVENT_PARTITION_DAYS", minimum=1)
LIVE_LOG_MAX_BYTES = 4 * 1024 * 1024  # of one operation; the whole output is an artifact anyway

# --- Metrics ---------------------------------------------------------------

METRICS_DIR = Path(env.text("PROMETHEUS_MULTIPROC_DIR") or counters_folder(DATA_DIR))
# Read by the library when it is imported: who serves no figures shares no counters.
os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
if PROCESS == "web":
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(made_private(METRICS_DIR))

# --- Database --------------------------------------------------------------

EMBEDDED_SERVER = Server(DATA_DIR / "postgres")
EMBEDDED_DATABASE = not env.text("DATABASE_URL")
DATABASE_URL = env.text("DATABASE_URL") or EMBEDDED_SERVER.app_url
DATABASE_POOL_SIZE = env.number("DATABASE_POOL_SIZE", minimum=1)
DATABASE_POOLER_URL = env.text("DATABASE_POOLER_URL")
WEB_PROCESSES = env.number("WEB_PROCESSES", minimum=1)
WEB_THREADS = env.number("WEB_THREADS", minimum=1)
# Long polls hold a thread each; as many as there are connections are kept for those who do not wait.
WAITING_PLACES = max(WEB_THREADS - DATABASE_POOL_SIZE, 0)
DATABASES = {
    "default": database.login(
        DATABASE_POOLER_URL or DATABASE_URL,
        statement_timeout=database.WEB_TIMEOUT if PROCESS == "web" else database.COMMAND_TIMEOUT,
        pool_size=DATABASE_POOL_SIZE if PROCESS == "web" else 0,
        through_pooler=bool(DATABASE_POOLER_URL),
    )
}
DATABASE_APP_ROLE = database.login(DATABASE_URL)["USER"]
# The login that `migrate` uses, and nothing else: the app's role owns no table.
DATABASE_OWNER_URL = (
    EMBEDDED_SERVER.owner_url if EMBEDDED_DATABASE else env.text("DATABASE_OWNER_URL") or DATABASE_URL
)
# What the app's role may ask for and not do: these act with the owner's rights.
OWNER_FUNCTIONS = ("add_event_partition",)
APPEND_ONLY_TABLES = ("run_events", "task_events", "campaign_events", "audit_entries")

# --- Sign-in and browser security ------------------------------------------

LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "CommonPasswordValidator")
] + [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    }
]
ACCOUNT_ADAPTER, SOCIALACCOUNT_ADAPTER = "runs.web.sso.Accounts", "runs.web.sso.Providers"
ACCOUNT_EMAIL_VERIFICATION = SOCIALACCOUNT_EMAIL_VERIFICATION = "none"  # addresses are set by admins
SOCIALACCOUNT_PROVIDERS = EXTRA.providers
SOCIALACCOUNT_LOGIN_ON_GET = True  # a form may lead to our own pages alone (form-action); a link may leave
OIDC_NAME = env.text("OIDC_NAME")
MFA_ADAPTER = "runs.web.sso.SecondFactors"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "Agent Platform"
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_ON_SUCCESS = True
# Name and address together: nobody can lock a colleague out from elsewhere. A name that does not exist counts
# and locks like one that does, so the answers are the same.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "agentplatform.middleware.client_address"
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "accounts/locked.html"

SESSION_ENGINE = "runs.models.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL else []
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SECURE_SSL_REDIRECT = PRODUCTION
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]  # asked on the inside, over plain HTTP
SECURE_HSTS_SECONDS = env.number("SECURE_HSTS_SECONDS") if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = PRODUCTION
SECURE_REFERRER_POLICY = "same-origin"
TRUST_PROXY_HEADERS = env.flag("TRUST_PROXY_HEADERS")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUST_PROXY_HEADERS else None
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    }
}
PERMISSIONS_POLICY = (
    "accelerometer",
    "camera",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "payment",
    "usb",
)

# --- API -------------------------------------------------------------------

REST_FRAMEWORK: dict[str, Any] = {
    # Every view names its own: a view that forgets them answers nobody.
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "agentplatform.problem.answer_exception",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Agent Platform",
    "DESCRIPTION": "The control plane for background coding agents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "POSTPROCESSING_HOOKS": [],  # components are named where they are written
}

# --- Background work --------------------------------------------------------

CELERY_BROKER_URL = env.text("CELERY_BROKER_URL")
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {
        "data_folder_in": str(BROKER_DIR / "messages"),
        "data_folder_out": str(BROKER_DIR / "messages"),
        "control_folder": str(BROKER_DIR / "control"),
        "polling_interval": 0.5,
    }
    if CELERY_BROKER_URL.startswith("filesystem://")
    else {}
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # for ever: a broker may be away for a night
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "agentplatform.beat:Scheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 5
# A tick that waited longer than its period has been overtaken by the next: it expires.
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "runs.tasks.sweep", "schedule": 5.0, "options": {"expires": 5}},
    "relay": {"task": "runs.tasks.relay", "schedule": 2.0, "options": {"expires": 2}},
    "send_out": {"task": "runs.tasks.send_out", "schedule": 5.0, "options": {"expires": 5}},
    "create_pull_requests": {
        "task": "runs.tasks.create_pull_requests",
        "schedule": 2.0,
        "options": {"expires": 2},
    },
    "fetch_mirrors": {"task": "runs.tasks.fetch_mirrors", "schedule": 15.0, "options": {"expires": 15}},
    "watch_pull_requests": {
        "task": "runs.tasks.watch_pull_requests",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "import_repositories": {
        "task": "runs.tasks.import_repositories",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    "make_partitions": {"task": "runs.tasks.make_partitions", "schedule": crontab(minute="27")},
    "find_reverts": {"task": "runs.tasks.find_reverts", "schedule": 300.0, "options": {"expires": 300}},
    "check_projections": {"task": "runs.tasks.check_projections", "schedule": crontab(hour="3", minute="17")},
    "forget_sessions": {"task": "runs.tasks.forget_sessions", "schedule": crontab(hour="3", minute="37")},
    "forget_notices": {"task": "approvals.tasks.forget_notices", "schedule": crontab(hour="3", minute="47")},
}

# --- Mail and logs ----------------------------------------------------------

_mail = urlsplit(env.text("EMAIL_URL"))
if _mail.geturl() and not (_mail.scheme in {"smtp", "smtps"} and _mail.hostname):
    # Without the value: it may hold a password.
    raise ImproperlyConfigured("EMAIL_URL must be smtp://host:port or smtps://host:port.")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if _mail.hostname else 'console'}.EmailBackend"
EMAIL_HOST = _mail.hostname or "localhost"
EMAIL_PORT = _mail.port or (465 if _mail.scheme == "smtps" else 25)
EMAIL_HOST_USER = unquote(_mail.username or "")
EMAIL_HOST_PASSWORD = unquote(_mail.password or "")
EMAIL_USE_SSL = _mail.scheme == "smtps"
EMAIL_TIMEOUT = 10
EMAIL_USE_TLS = not EMAIL_USE_SSL and EMAIL_PORT == 587  # noqa: PLR2004  the submission port, where STARTTLS is the rule
try:
    WEBHOOK_NETWORKS = [str(ip_network(text)) for text in env.items("WEBHOOK_NETWORKS")]
except ValueError as _error:
    raise ImproperlyConfigured(f"WEBHOOK_NETWORKS must be networks such as 10.1.0.0/16: {_error}.") from None
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL")
NOTICE_DAYS = env.number("NOTICE_DAYS", minimum=1)

LOGGING_CONFIG = None
logs.configure(level=env.text("LOG_LEVEL").upper(), as_json=PRODUCTION)
