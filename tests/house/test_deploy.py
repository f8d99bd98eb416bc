"""What runs the product elsewhere: one command for each program, locked in, and no secret in a file."""

from __future__ import annotations

import json
import re
import shlex
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentplatform.variables import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KNOWN = {variable.name for variable in ENVIRONMENT}
SECRETS = re.compile(r"KEY|PASSWORD")
UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))
PROGRAMS = {"web": "agentplatform-web.service", "background": "agentplatform-background@.service"}


def containerfile() -> list[tuple[str, str]]:
    """Its instructions, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def unit(name: str) -> ConfigParser:
    found = ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read(DEPLOY / name)
    return found


def arguments(words: list[str]) -> list[str]:
    """A command without the interpreter's place and without the address it listens at."""
    found = list(words[words.index("-m") :])
    if "--bind" in found:
        del found[found.index("--bind") : found.index("--bind") + 2]
    return found


@pytest.mark.parametrize("name", SERVICES)
def test_each_container_is_rootless_read_only_and_without_capabilities(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"].split(":")[0] not in {"", "0", "root"}
    assert not {"privileged", "cap_add", "devices", "network_mode", "pid"} & service.keys()
    assert "docker.sock" not in str(service.get("volumes"))


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_container_may_write_is_named(name):
    kept = [
        volume.split(":")[1] for volume in SERVICES[name].get("volumes", []) if not volume.endswith(":ro")
    ]
    assert [*kept, *SERVICES[name].get("tmpfs", [])]
    assert {
        volume.split(":")[0]
        for volume in SERVICES[name].get("volumes", [])
        if "/" not in volume.split(":")[0]
    } <= {*COMPOSE["volumes"]}


def test_services_are_given_variables_that_exist_and_no_secret_has_a_default():
    for name in ("migrate", "web", "background"):
        given = SERVICES[name]["environment"]
        assert given.keys() <= KNOWN, name
        required = {variable.name for variable in ENVIRONMENT if variable.required_in_production}
        assert required <= given.keys(), name
    for placeholder in re.findall(r"\$\{([^}]+)\}", (ROOT / "compose.yaml").read_text()):
        assert not SECRETS.search(placeholder.split(":")[0]) or ":?" in placeholder, placeholder


def test_the_owners_login_is_known_to_migrations_alone():
    assert [name for name in SERVICES if "DATABASE_OWNER_URL" in SERVICES[name].get("environment", {})] == [
        "migrate"
    ]
    assert "DATABASE_OWNER_URL" not in (DEPLOY / "agentplatform.env").read_text()


def test_whoever_depends_on_another_waits_until_it_is_ready():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES, name
            finished = how["condition"] == "service_completed_successfully"
            assert finished or "healthcheck" in SERVICES[other], (name, other)


def test_images_have_a_version():
    for name, service in SERVICES.items():
        assert "build" in service or re.search(r":\d", service["image"]), name
    for instruction, rest in containerfile():
        assert instruction != "FROM" or re.match(r"\S+:\d", rest), rest


def test_the_image_holds_the_whole_product_and_gives_up_root():
    lines = containerfile()
    known = {"FROM", "COPY", "RUN", "WORKDIR", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "CMD"}
    assert {instruction for instruction, _ in lines} <= known
    copied = {
        rest.split()[0] for instruction, rest in lines if instruction == "COPY" and "--from" not in rest
    }
    assert all((ROOT / source).exists() for source in copied)
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert {*packages, "manage.py", "templates", "static"} <= copied
    (user,) = [rest for instruction, rest in lines if instruction == "USER"]
    assert user == SERVICES["web"]["user"]
    assert json.loads(lines[-1][1]) == SERVICES["web"]["command"]
    ignored = (ROOT / ".containerignore").read_text().split()
    assert {source.removeprefix("!") for source in ignored if source.startswith("!")} == copied


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_started_alike_everywhere(program):
    wanted = arguments(SERVICES[program]["command"])
    started = unit(PROGRAMS[program])["Service"]["ExecStart"]
    assert arguments(shlex.split(started)) == wanted
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    assert arguments(shlex.split(lines[program])) == wanted


@pytest.mark.parametrize("name", UNITS)
def test_units_give_up_rights_and_get_their_time_to_end(name):
    service = unit(name)["Service"]
    assert service["User"] not in {"", "root"}
    wanted = {
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "PrivateTmp": "yes",
        "CapabilityBoundingSet": "",
    }
    assert {key: service[key] for key in wanted} == wanted
    assert "Environment" not in service, "secrets stand in a file that root alone reads"
    program = next((program for program, unit_name in PROGRAMS.items() if unit_name == name), None)
    if program:
        assert f"{service['TimeoutStopSec']}s" == SERVICES[program]["stop_grace_period"]


def test_the_example_of_an_environment_names_variables_that_exist():
    lines = (DEPLOY / "agentplatform.env").read_text().splitlines()
    named = {line.lstrip("# ").split("=")[0] for line in lines if re.match(r"(# )?[A-Z_]+=", line)}
    assert named <= KNOWN
    assert {variable.name for variable in ENVIRONMENT if variable.required_in_production} <= named


def test_what_is_installed_there_is_what_was_tested_here():
    def pins(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==(\S+)", (ROOT / name).read_text(), re.MULTILINE))

    production, tested = pins("requirements.production.lock"), pins("requirements.lock")
    assert production.items() <= tested.items()
    assert {"django", "redis", "boto3"} <= production.keys()
    assert "pytest" not in production
