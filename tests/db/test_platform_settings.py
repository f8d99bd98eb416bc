"""Settings are refused at start, by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = {
    "AGENTPLATFORM_ENV": "production",
    "SECRET_KEY": "f8Y2kq9wT7" * 6,
    "EVENT_CHAIN_KEY": "k3P9zx4bN1" * 6,
    "ALLOWED_HOSTS": "agents.example.com",
    "DATABASE_URL": "postgresql://app:pw@db.example.com/agents",
}


def manage(tmp_path: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "agentplatform.settings",
        "AGENTPLATFORM_DATA_DIR": str(tmp_path),
        **variables,
    }
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_production_names_all_that_is_missing_at_once(tmp_path):
    refused = manage(tmp_path, "check", AGENTPLATFORM_ENV="production", DATABASE_URL="postgresql://db/agents")
    assert refused.returncode != 0
    assert refused.stderr.strip().endswith(
        "In production these variables must be set: SECRET_KEY, EVENT_CHAIN_KEY, ALLOWED_HOSTS."
    )


def test_production_refuses_demonstration_data(tmp_path):
    refused = manage(tmp_path, "up", **PRODUCTION)
    assert refused.returncode != 0
    assert "Demonstration data is refused in production" in refused.stderr


def test_production_passes_the_deployment_checks_without_a_warning(tmp_path):
    checked = manage(
        tmp_path, "check", "--deploy", "--fail-level", "WARNING", "--tag", "security", **PRODUCTION
    )
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AGENTPLATFORM_ENV", "staging"),
        ("AGENTPLATFORM_URL", "agents.example.com"),
        ("DATABASE_POOL_SIZE", "many"),
        ("WEB_PROCESSES", "0"),
        ("TRUST_PROXY_HEADERS", "maybe"),
        ("DATABASE_URL", "postgresql://[broken"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(tmp_path, name, value):
    refused = manage(tmp_path, "check", **{name: value})
    assert refused.returncode != 0
    assert name in refused.stderr.strip().splitlines()[-1]
