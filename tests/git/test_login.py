"""Secrets of repositories: from a file or the environment, to git alone, and nowhere else."""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runs.credentials import Credential, CredentialsWrong, check_credentials, credential_for
from runs.credentials.access import RepositoryAccess
from runs.domain.places import address_of, place_of
from runs.mirrors import GitFailed, Mirror
from runs.pull_requests.base import Author, Change
from runs.pull_requests.git import GitProvider
from runs.pull_requests.text import commit_message
from tests.git.repos import Remote, mirror_of
from tests.unit.patch_cases_guard import GUARD_CASES

CASE = GUARD_CASES["moved"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "credentials.toml"


def test_a_secret_stands_in_the_file_in_another_or_in_the_environment(source, tmp_path, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "from-env")
    (tmp_path / "t").write_text("from-file\n")
    source.write_text(
        f'[one]\ntoken = "as-is"\n[two]\ntoken_file = "{tmp_path}/t"\n["*"]\ntoken_env = "A_TOKEN"\n'
    )
    tokens = [credential_for(name, source).token for name in ("one", "two", "any other")]
    assert tokens == ["as-is", "from-file", "from-env"]
    assert credential_for("one", "") == Credential()
    assert "as-is" not in repr(credential_for("one", source))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[one]\ntokn = 'hush'\n", "tokn is not known"),
        ("[one]\ntoken = 'hush'\ntoken_env = 'X'\n", "give one of token and token_env"),
        ("[one]\ntoken_env = 'NOT_SET_ANYWHERE'\n", "token_env gives nothing"),
        ("[one]\ntoken_file = '/nowhere'\n", "the file of token_file cannot be read"),
        ("[one]\napp_id = '1'\n", "needs both app_id and private_key"),
        ("[one]\nsigning_key_file = '/nowhere'\n", "no signing key"),
        ("token = 'hush'\n", "outside of a repository's table"),
        ("token = hush", "is not TOML"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_without_its_secrets(source, text, said):
    source.write_text(text)
    with pytest.raises(CredentialsWrong, match=said) as wrong:
        check_credentials(source)
    assert "hush" not in str(wrong.value)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://github.com/acme/clock.git", ("github.com", "acme/clock")),
        ("https://github.com/acme/clock/", ("github.com", "acme/clock")),
        ("git@github.com:acme/clock.git", ("github.com", "acme/clock")),
        ("ssh://git@git.example:2222/acme/clock", ("git.example", "acme/clock")),
        ("file:///srv/git/clock.git", ("", "")),
        ("https://github.com/clock", ("", "")),
        ("https://gitlab.example/acme/web/clock.git", ("gitlab.example", "acme/web/clock")),
        ("http://git.example:3000/acme/clock.git", ("git.example:3000", "acme/clock")),
    ],
)
def test_the_forge_is_read_from_the_address(url, found):
    assert address_of(url) == found


def test_a_repository_is_in_one_place_however_its_address_is_written():
    same = [
        "https://Git.Example/Acme/clock.git",
        "git@git.example:acme/clock",
        "ssh://git@git.example:2222/acme/clock/",
    ]
    assert {place_of(url) for url in same} == {"git.example/acme/clock"}
    assert place_of("file:///srv/git/clock.git/") == "file:///srv/git/clock"


@pytest.mark.parametrize(
    ("provider", "url", "api"),
    [
        ("github", "git@github.com:acme/clock.git", "https://api.github.com"),
        ("github", "https://github.acme.example/acme/clock", "https://github.acme.example/api/v3"),
        ("gitlab", "https://gitlab.com/acme/web/clock.git", "https://gitlab.com/api/v4"),
        ("gitlab", "https://git.example:8443/acme/clock.git", "https://git.example:8443/api/v4"),
        ("gitea", "ssh://git@git.example:2222/acme/clock", "https://git.example/api/v1"),
        ("gitea", "https://codeberg.org/acme/clock", "https://codeberg.org/api/v1"),
    ],
)
def test_the_api_is_where_each_forge_has_it(provider, url, api):
    assert RepositoryAccess(url=url, credential=Credential(), provider=provider).forge.api_url == api
    elsewhere = Credential(api_url="https://inside.example/base/")
    named = RepositoryAccess(url=url, credential=elsewhere, provider=provider)
    assert named.forge.api_url == "https://inside.example/base"


# --- https ----------------------------------------------------------------------------------------


@pytest.fixture
def private(tmp_path, monkeypatch):
    """A private repository over https that lets in one login; yields (remote, url, what it was sent)."""
    remote = Remote(tmp_path / "private.git")
    remote.commit(CASE.base)
    remote.git("config", "http.receivepack", "true")
    heard: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(remote, heard))
    server.socket = _certified(tmp_path).wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "cert.pem"))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield remote, f"https://127.0.0.1:{server.server_address[1]}/private.git", heard
    server.shutdown()
    server.server_close()


def _certified(folder: Path) -> ssl.SSLContext:
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "t")]),
    )
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    there = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = made.add_extension(there, critical=False).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def _handler(remote: Remote, heard: list[str]) -> type[BaseHTTPRequestHandler]:
    wanted = "Basic " + base64.b64encode(b"x-access-token:s3cret").decode()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.serve(b"")

        def do_POST(self) -> None:
            self.serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def serve(self, body: bytes) -> None:
            heard.append(self.path)
            if self.headers.get("Authorization") != wanted:
                self.send_error(401)
                return
            path, _, query = self.path.partition("?")
            environment = {
                "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(remote.path.parent),
                "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "x", "REQUEST_METHOD": self.command,
                "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }  # fmt: skip
            command = ["git", "http-backend"]
            done = subprocess.run(command, input=body, env=environment, capture_output=True, check=True)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().split("\r\n"):
                self.send_header(*line.split(": ", 1))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def test_a_private_repository_is_fetched_and_pushed_with_a_login_that_no_address_holds(private, tmp_path):
    remote, url, heard = private
    access = RepositoryAccess(url=url, credential=Credential(token="s3cret"))
    mirror = Mirror(tmp_path / "mirror.git", url, access.git_environment)
    mirror.fetch()
    pushed = GitProvider(mirror).create(_change(remote))
    assert remote.branches()["agent/r1"] == pushed.commit_sha
    assert not [path for path in heard if "s3cret" in path]
    assert "s3cret" not in (tmp_path / "mirror.git" / "config").read_text()


def test_without_the_login_it_is_said_to_need_access(private, tmp_path):
    _, url, _ = private
    access = RepositoryAccess(url=url, credential=Credential(token="wr0ng"))
    with pytest.raises(GitFailed) as refused:
        Mirror(tmp_path / "mirror.git", url, access.git_environment).fetch()
    assert "wr0ng" not in refused.value.message


def test_a_login_is_never_sent_in_the_clear_nor_to_another_host():
    token = Credential(token="s3cret")
    assert RepositoryAccess(url="http://git.example/x.git", credential=token).git_environment() == {}
    said = RepositoryAccess(url="https://git.example/x.git", credential=token).git_environment()
    assert said["GIT_CONFIG_KEY_0"] == "http.https://git.example/.extraHeader"


# --- signatures -----------------------------------------------------------------------------------


def test_a_signed_commit_is_the_same_however_often_it_is_made(tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    remote = Remote(tmp_path / "remote.git")
    remote.commit(CASE.base)
    provider = GitProvider(mirror_of(remote, tmp_path), signing_key=key)
    pushed = provider.create(_change(remote))
    assert provider.create(_change(remote)).commit_sha == pushed.commit_sha
    assert b"gpgsig -----BEGIN SSH SIGNATURE-----" in remote.show(pushed.commit_sha)


def _change(remote: Remote) -> Change:
    return Change(
        base_commit=remote.branches()["main"],
        patch=CASE.patch,
        approved_paths=["f.txt"],
        branch="agent/r1",
        message=commit_message("Say two in words"),
        author=Author("Agent Platform", "agents@example.invalid"),
        timestamp=datetime(2026, 7, 3, tzinfo=UTC),
        base_branch="main",
    )
