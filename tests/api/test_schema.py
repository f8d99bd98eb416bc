"""The published schema: complete, valid, the same as in the docs, and shown to people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from django.test import Client
from django.urls import reverse
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from runs.api.bodies import MACHINE_EVENTS
from runs.api.schema import openapi, openapi_text
from runs.domain.errors import all_refusals
from runs.domain.payloads import SHAPES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


def test_the_docs_hold_the_present_schema():
    assert DOCS.read_text() == openapi_text(), "run `manage.py generate_docs`"


def test_every_reference_has_its_component():
    text, names = openapi_text(), set(openapi()["components"]["schemas"])
    used = {
        line.partition("schemas/")[2].strip("'\" ") for line in text.splitlines() if "#/components/" in line
    }
    assert used <= names


def test_every_component_is_a_valid_schema():
    for schema in openapi()["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_operation_has_a_name_of_its_own():
    ids = [operation["operationId"] for item in openapi()["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    assert all(name.isidentifier() for name in ids)


def test_every_event_of_machines_has_its_payload():
    schemas = openapi()["components"]["schemas"]
    mapping = schemas["EventBody"]["discriminator"]["mapping"]
    assert list(mapping) == [event.value for event in MACHINE_EVENTS]
    for event in MACHINE_EVENTS:
        name = mapping[event.value].rpartition("/")[2].removesuffix("Event")
        assert schemas[f"{name}Payload"]["properties"].keys() == SHAPES.get(event, {}).keys()


def test_every_refusal_is_a_code_of_the_problem():
    codes = openapi()["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert {refusal.code for refusal in all_refusals()} <= set(codes)


def test_both_ways_to_call_are_named():
    schemes = openapi()["components"]["securitySchemes"]
    assert {one["type"] for one in schemes.values()} == {"http", "apiKey"}


@pytest.mark.django_db
def test_the_schema_is_served_in_both_spellings():
    as_yaml, as_json = Client().get("/api/schema/"), Client().get("/api/schema/?format=json")
    assert as_yaml["Content-Type"].startswith("application/vnd.oai.openapi;")
    assert yaml.safe_load(as_yaml.content) == json.loads(as_json.content)
    assert json.loads(as_json.content)["openapi"].startswith("3.1")


@pytest.mark.django_db
def test_the_page_shows_every_call_and_problem_and_loads_nothing_from_elsewhere():
    response = Client().get(reverse("api-docs"))
    page = response.content.decode()
    assert response.status_code == 200
    for path, item in openapi()["paths"].items():
        for method in item:
            assert f"{method.upper()} {path}" in page
    for refusal in all_refusals():
        assert f'id="problem-{refusal.code}"' in page
    assert "https://" not in page
    assert "<script>" not in page
    assert "style=" not in page
