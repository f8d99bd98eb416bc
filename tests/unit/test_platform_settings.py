"""Settings are read by name; secrets are kept, and never repeated."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from agentplatform import database
from agentplatform.environment import Environment, Variable, kept_secret


def test_a_variable_that_was_not_declared_cannot_be_read():
    with pytest.raises(KeyError):
        Environment([], {"SECRET": "x"}).text("SECRET")


def test_an_empty_variable_counts_as_not_set():
    assert Environment([Variable("LEVEL", "INFO", "")], {"LEVEL": " "}).text("LEVEL") == "INFO"


def test_a_kept_secret_is_made_once_and_private(tmp_path):
    path = tmp_path / "keys" / "secret"
    first = kept_secret(path)
    assert kept_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["secret"]


def test_a_database_address_may_carry_a_socket_and_options():
    entry = database.login("postgresql://app@/agents?host=%2Frun%2Fpg&sslmode=require")
    assert (entry["HOST"], entry["NAME"], entry["USER"]) == ("/run/pg", "agents", "app")
    assert entry["OPTIONS"]["sslmode"] == "require"


def test_a_wrong_database_address_is_not_repeated_in_the_refusal():
    with pytest.raises(ImproperlyConfigured) as refusal:
        database.login("postgresql://app:hunter2@[broken/agents")
    assert "hunter2" not in str(refusal.value)
