"""Webhooks reach the outside, and of the inside only what an admin named, whatever a name says later."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time

import httpcore
import pytest

from approvals.notices.guard import AddressRefusedError, is_fit, post, url_problem
from tests.receivers import receiver

INSIDE = [
    "127.0.0.1",
    "::1",
    "10.0.0.5",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "0.0.0.0",
    "100.64.0.1",
    "224.0.0.1",
    "fe80::1",
    "fd00::1",
    "::ffff:10.0.0.5",
    "::ffff:169.254.169.254",
    "2002:a00:5::",
    "64:ff9b::a00:5",
    "64:ff9b::7f00:1",
]


@pytest.fixture(autouse=True)
def no_networks(settings):
    settings.WEBHOOK_NETWORKS = []


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_refused_in_every_spelling(address):
    assert not is_fit(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_an_address_outside_is_fit(address):
    assert is_fit(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/admin",
        "http://[::1]/",
        "https://[::ffff:10.0.0.5]/",
        "http://169.254.169.254/latest",
        "https://10.0.0.5/",
        "https://u:p@hooks.example.invalid/",
        "https://@hooks.example.invalid/",
        "http://hooks.example.com/",
        "https://localhost/",
        "https://metadata.google.internal/",
        "ftp://hooks.example.com/",
        "https:///nowhere",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com/a b",
        "not an address",
    ],
)
def test_such_an_address_cannot_be_saved(url):
    assert url_problem(url)


def test_a_public_address_can_be_saved_and_an_inside_one_where_its_network_is_named(settings):
    assert url_problem("https://hooks.example.com:8443/path?x=1") == ""
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/8"]
    assert url_problem("http://10.0.0.5/hook") == ""
    assert url_problem("http://192.168.1.1/hook")


def names(monkeypatch, *answers: str) -> list[str]:
    """Names lead to these addresses, one after the other; what was connected to."""
    queue, connected = list(answers), []

    def look_up(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (queue.pop(0), port))]

    def connect(self, host, *_, **__):
        connected.append(host)
        raise httpcore.ConnectError("no route")

    monkeypatch.setattr("approvals.notices.guard.socket.getaddrinfo", look_up)
    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    return connected


def test_a_name_that_leads_inside_is_refused_when_it_is_connected_to(monkeypatch):
    connected = names(monkeypatch, "127.0.0.1")
    with pytest.raises(AddressRefusedError):
        post("https://hooks.example.com/", content=b"{}", headers={})
    assert connected == []


def test_the_address_that_was_looked_at_is_the_one_connected_to(monkeypatch):
    # A name that changes its mind is asked only once.
    connected = names(monkeypatch, "93.184.216.34", "127.0.0.1")
    with pytest.raises(httpcore.ConnectError):
        post("https://hooks.example.com/", content=b"{}", headers={})
    assert connected == ["93.184.216.34"]


def test_plain_http_is_not_spoken_to_the_outside(monkeypatch):
    connected = names(monkeypatch, "93.184.216.34")
    with pytest.raises(AddressRefusedError):
        post("http://hooks.example.com/", content=b"{}", headers={})
    assert connected == []


def test_an_answer_that_drips_has_one_time_limit_over_all_of_it(settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                for letter in b"HTTP/1.1 200 OK\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":
                    if done.wait(0.05):
                        return
                    connection.send(bytes([letter]))

        thread = threading.Thread(target=drip)
        thread.start()
        started = time.monotonic()
        with pytest.raises(httpcore.ReadTimeout):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/", content=b"{}", headers={}, seconds=0.3)
        assert time.monotonic() - started < 3
        done.set()
        thread.join()


def test_a_redirect_is_not_followed(settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with receiver() as hook:
        hook.answer = lambda post: (302, {"Location": hook.url, "Retry-After": "7"})
        assert post(hook.url, content=b"{}", headers={}) == (302, "7")
    assert len(hook.posts) == 1
