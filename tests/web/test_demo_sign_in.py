"""One click signs in where a demonstration runs on one's own machine, and nowhere else."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib import auth
from django.test import Client
from django.urls import reverse

from agentplatform.demonstration import is_loopback, why_refused
from runs.demo.people import PEOPLE
from runs.models import Person
from tests import factories as make

NAMES = [person.name for person in PEOPLE]
LOGIN = "/accounts/login/"
HERE = {"host": "127.0.0.1:8000"}


@pytest.fixture
def demo(db, settings):
    """Demonstration mode over its four people."""
    settings.DEMO = True
    for person in PEOPLE:
        make.person(*person.roles, name=person.name)
    return settings


@pytest.fixture
def client():
    """A browser on this machine."""
    return Client(headers=HERE)


def click(client: Client, name: str = "rita", host: str = HERE["host"], **environ: Any) -> Any:
    return client.post(
        reverse("demo_sign_in", args=[name]), {"next": "/runs/"}, headers={"host": host}, **environ
    )


def who(client: Client) -> str:
    user = auth.get_user(client)
    return user.username if isinstance(user, Person) else ""


def test_the_sign_in_page_lists_the_four_with_their_parts(demo, client):
    page = client.get(LOGIN).content.decode()
    assert re.findall(r"/accounts/demo/(\w+)/", page) == NAMES
    for part in ("submitter", "reviewer", "lead", "admin"):
        assert f"{part}:" in page
    assert page.count("csrfmiddlewaretoken") == 1 + len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_one_click_signs_in_and_goes_on_to_where_one_wanted_to_be(demo, client, name):
    answer = click(client, name)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/runs/")
    assert who(client) == name


def test_every_page_says_that_this_is_a_demonstration(demo, client):
    click(client)
    assert "Demonstration mode" in client.get("/").content.decode()
    demo.DEMO = False
    assert "Demonstration mode" not in client.get("/").content.decode()


@pytest.mark.parametrize("method", ["get", "head", "put"])
def test_only_a_post_signs_in(demo, client, method):
    assert getattr(client, method)(reverse("demo_sign_in", args=["rita"])).status_code == 405
    assert who(client) == ""


def test_a_post_from_another_site_is_refused(demo):
    client = Client(enforce_csrf_checks=True, headers=HERE)
    assert click(client).status_code == 403
    assert who(client) == ""


def test_the_button_of_the_sign_in_page_is_accepted(demo):
    client = Client(enforce_csrf_checks=True, headers=HERE)
    page = client.get(LOGIN).content.decode()
    form = re.search(
        r'action="(/accounts/demo/ada/)"><input type="hidden" name="csrfmiddlewaretoken" value="(\w+)"', page
    )
    assert form is not None
    action, token = form.groups()
    assert client.post(action, {"csrfmiddlewaretoken": token}).status_code == 302
    assert who(client) == "ada"


@pytest.mark.parametrize("address", ["192.0.2.7", "10.0.0.1", "fe80::1", ""])
def test_a_client_on_another_machine_is_not_offered_it(demo, client, address):
    assert click(client, REMOTE_ADDR=address).status_code == 404
    assert who(client) == ""
    assert "/accounts/demo/" not in client.get(LOGIN, REMOTE_ADDR=address).content.decode()


@pytest.mark.parametrize("host", ["agents.example.com", "127.0.0.1.example.com", "192.0.2.7:8000"])
def test_another_host_name_is_not_offered_it(demo, client, host):
    # A page elsewhere whose name resolves to 127.0.0.1 must not sign in, even where its name is allowed.
    demo.ALLOWED_HOSTS = ["*"]
    assert click(client, host=host).status_code == 404
    assert who(client) == ""
    assert "/accounts/demo/" not in client.get(LOGIN, headers={"host": host}).content.decode()


@pytest.mark.parametrize("header", ["X_FORWARDED_FOR", "X_FORWARDED_HOST", "FORWARDED", "X_REAL_IP", "VIA"])
def test_a_proxy_on_this_machine_is_not_this_machine(demo, client, header):
    assert click(client, **{f"HTTP_{header}": "127.0.0.1"}).status_code == 404
    assert who(client) == ""


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1", "[::1]:8000"])
def test_this_machine_has_several_names(demo, client, host):
    assert click(client, host=host).status_code == 302


@pytest.mark.parametrize("change", [{"DEMO": False}, {"PRODUCTION": True}])
def test_without_demonstration_mode_there_is_nothing(demo, client, change):
    for name, value in change.items():
        setattr(demo, name, value)
    assert click(client).status_code == 404
    assert who(client) == ""
    assert "/accounts/demo/" not in client.get(LOGIN).content.decode()


def test_nobody_but_the_four_signs_in_by_a_click(demo, client):
    make.person(*PEOPLE[-1].roles, name="mallory")
    assert click(client, "mallory").status_code == 404
    Person.objects.filter(username="rita").update(is_active=False)
    assert click(client, "rita").status_code == 404
    assert who(client) == ""


def test_it_never_leads_away_from_here(demo, client):
    answer = client.post(reverse("demo_sign_in", args=["rita"]), {"next": "https://example.com/"})
    assert answer.headers["Location"] == reverse("home")


def test_the_sign_in_page_keeps_where_one_wanted_to_be(demo, client):
    page = html.unescape(client.get(LOGIN, {"next": "/approvals/"}).content.decode())
    assert page.count('name="next" value="/approvals/"') == 1 + len(NAMES)


# --- Settings --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"production": True}, "in production"),
        ({"allowed_hosts": ["localhost", "agents.example.com"]}, "agents.example.com"),
        ({"allowed_hosts": ["*"]}, "ALLOWED_HOSTS"),
        ({"allowed_hosts": [".localhost"]}, "ALLOWED_HOSTS"),
        ({"allowed_hosts": ["0.0.0.0"]}, "ALLOWED_HOSTS"),
        ({"public_url": "https://agents.example.com"}, "AGENTPLATFORM_URL"),
    ],
)
def test_settings_that_reach_beyond_this_machine_refuse_it(change, said):
    harmless: dict[str, Any] = {
        "production": False,
        "allowed_hosts": ["localhost", "127.0.0.1", "[::1]"],
        "public_url": "",
    }
    assert why_refused(**harmless) == ""
    assert why_refused(**harmless | {"public_url": "http://localhost:8000"}) == ""
    assert said in why_refused(**harmless | change)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1", "[::1]"])
def test_loopback_is_recognised(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "*", "::", "::ffff:192.0.2.7", "localhost.example.com", "2130706433"])
def test_nothing_else_is_loopback(host):
    assert not is_loopback(host)
