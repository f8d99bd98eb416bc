"""The variables of the environment that settings are read from, for people and for the reference."""

from __future__ import annotations

from pathlib import Path

from agentplatform.environment import Variable

BASE_DIR = Path(__file__).resolve().parent.parent

ENVIRONMENT = (
    Variable("AGENTPLATFORM_ENV", "development", "`development` or `production`"),
    Variable("AGENTPLATFORM_DATA_DIR", str(BASE_DIR / "var"), "Folder of everything that is kept in files"),
    Variable("AGENTPLATFORM_URL", "", "Public address, such as `https://agents.example.com`; used in links"),
    Variable(
        "SECRET_KEY",
        "",
        "Signs sessions; in development made once in the data folder",
        required_in_production=True,
    ),
    Variable(
        "EVENT_CHAIN_KEY",
        "",
        "Keys the chain heads of the event log; must outlive SECRET_KEY",
        required_in_production=True,
    ),
    Variable("LEASE_TOKEN_KEY", "", "Derives lease tokens; without it, a key derived from SECRET_KEY"),
    Variable(
        "ALLOWED_HOSTS",
        "localhost,127.0.0.1,[::1]",
        "Host names that are answered, separated by commas",
        required_in_production=True,
    ),
    Variable(
        "DATABASE_URL",
        "",
        "The app's login, `postgresql://…`; without it, the embedded server",
        required_in_production=True,
    ),
    Variable("DATABASE_OWNER_URL", "", "Login of the tables' owner, used by `migrate` alone"),
    Variable("DATABASE_POOL_SIZE", "8", "Connections of each web process"),
    Variable(
        "DATABASE_POOLER_URL",
        "",
        "The same database through PgBouncer in transaction mode; what needs a session takes DATABASE_URL",
    ),
    Variable("WEB_THREADS", "32", "Threads of each web process; those above the connections may wait"),
    Variable("WEB_PROCESSES", "2", "Processes of each web program, wherever it is started"),
    Variable(
        "ARTIFACT_STORE_URL",
        "",
        "`s3://bucket/folder?endpoint_url=…&region_name=…`; without it, files in the data folder; an extra",
    ),
    Variable(
        "CELERY_BROKER_URL",
        "filesystem://localhost",
        "Message broker, such as `redis://…`; by default, files",
    ),
    Variable("RUN_MAX_EVENTS", "10000", "Events of one run; at the limit it is wound down"),
    Variable("RUN_MAX_LOG_BYTES", "52428800", "Bytes of all payloads and facts of one run; the same happens"),
    Variable(
        "EVENT_PARTITION_DAYS",
        "30",
        "Days of runs whose events share a partition; fewer where one grows beyond what a night archives",
    ),
    Variable(
        "CIRCUIT_BREAKER_FAILURES",
        "5",
        "So many runs of a repository that end with the same INFRASTRUCTURE failure hold it; 0: never",
    ),
    Variable("CIRCUIT_BREAKER_WINDOW_SECONDS", "600", "Within this time they count together"),
    Variable("CIRCUIT_BREAKER_HOLD_SECONDS", "1800", "How long that hold lasts, unless somebody lifts it"),
    Variable(
        "OIDC_ISSUER", "", "OpenID Connect provider to sign in at, such as `https://id.example.com`; an extra"
    ),
    Variable("OIDC_CLIENT_ID", "", "What the provider calls this platform"),
    Variable("OIDC_CLIENT_SECRET", "", "The secret that the provider gave it"),
    Variable("OIDC_NAME", "your company", "What the sign-in page calls the provider"),
    Variable("SECOND_FACTORS", "false", "Offer people a second factor, an authenticator app; an extra"),
    Variable(
        "TRUST_PROXY_HEADERS",
        "false",
        "Believe X-Forwarded-Proto and -For of the proxy in front",
    ),
    Variable("SECURE_HSTS_SECONDS", "31536000", "How long browsers must insist on HTTPS (production)"),
    Variable(
        "PROMETHEUS_MULTIPROC_DIR",
        "",
        "Folder where the web processes of one machine share their counters; by default in shared memory",
    ),
    Variable(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "",
        "Collector of traces, such as `http://127.0.0.1:4318`; an extra, for web, background and workers",
    ),
    Variable("LOG_LEVEL", "INFO", "Least severe level that is logged"),
    Variable(
        "EMAIL_URL",
        "",
        "`smtp://user:password@host:587` or `smtps://…`, percent-encoded; without it, mail is printed",
    ),
    Variable(
        "WEBHOOK_NETWORKS",
        "",
        "Inside networks that webhooks may reach, such as `10.1.0.0/16`, separated by commas; else none",
    ),
    Variable("DEFAULT_FROM_EMAIL", "agentplatform@localhost", "Sender of mail"),
    Variable("NOTICE_DAYS", "180", "Days that inboxes and letters are kept; what still waits stays"),
    Variable(
        "REPOSITORY_CREDENTIALS",
        "",
        "TOML file with the tokens, app keys and webhook secrets of repositories; see the page on forges",
    ),
    Variable(
        "AGENTPLATFORM_DEMO",
        "false",
        "One-click sign-in; set by `manage.py up` itself over demonstration data, refused but on loopback",
    ),
    Variable("AGENTPLATFORM_PROCESS", "command", "Set by the product itself: `web` or `command`"),
)
