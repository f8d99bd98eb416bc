"""Secrets are found in what is added, and in nothing else; they are never repeated.

Every secret-shaped text is joined from pieces, so that none stands whole in this file.
"""

from __future__ import annotations

import string

import pytest

from runs.domain.patch import read_patch
from runs.domain.secrets import (
    REDACTED,
    mask,
    mask_lines,
    masked_hunk,
    scan,
    scan_added,
    scanner_config,
    without_secrets,
)
from tests.unit.patch_cases import CASES, KEY
from tests.unit.patch_cases_guard import GUARD_CASES

ALNUM = (string.ascii_letters + string.digits) * 5
MIXED = "q7Rk2" + "Zp9vT4" + "mXw8Lc3N" + "bY6d"
HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"
DASHES = "-" * 5
PEM = DASHES + "BEGIN {}PRIVATE KEY" + DASHES

SECRETS = {
    "aws_access_key_id": KEY,
    "aws_secret_key": "aws_secret_access_key = " + "u8Kf3Zr" + "T0pQ/v6+yXw2Lm" + "N9aB4cD7eF1gH5jK3sQ",
    "github_token": "ghp" + "_" + ALNUM[:36],
    "github_fine_grained_token": "github" + "_pat_" + ALNUM[:22] + "_" + ALNUM[:59],
    "gitlab_token": "glp" + "at-" + ALNUM[:20],
    "slack_token": "xox" + "b-" + "123456789012-" + ALNUM[:24],
    "slack_webhook": "https://hooks.slack" + ".com/services/T00000000/B00000000/" + ALNUM[:24],
    "stripe_live_key": "sk" + "_live_" + ALNUM[:24],
    "google_api_key": "AI" + "za" + ALNUM[:35],
    "google_oauth_secret": "GOC" + "SPX-" + ALNUM[:28],
    "npm_token": "np" + "m_" + ALNUM[:36],
    "pypi_token": "pypi-" + "AgEIcHlwaS5vcmc" + ALNUM[:60],
    "sendgrid_key": "S" + "G." + ALNUM[:22] + "." + ALNUM[:43],
    "anthropic_key": "sk-" + "ant-api03-" + ALNUM[:80],
    "openai_key": "sk-" + "proj-" + ALNUM[:60],
    "hugging_face_token": "h" + "f_" + ALNUM[:34],
    "digitalocean_token": "dop" + "_v1_" + HEX * 2,
    "vault_token": "hv" + "s." + ALNUM[:30],
    "twilio_key": "S" + "K" + HEX,
    "telegram_bot_token": "123456789" + ":A" + "A" + ALNUM[:33],
    "azure_storage_key": "Account" + "Key=" + ALNUM[:86] + "==",
    "json_web_token": "ey" + "J" + ALNUM[:20] + ".ey" + "J" + ALNUM[:30] + "." + ALNUM[:40],
    "private_key": PEM.format("RSA "),
    "authorization_header": "Authorization: " + "Bearer " + MIXED,
    "address_with_password": "postgres://app:" + MIXED + "@db.prod.internal/app",
    "secret_in_quotes": 'client_secret: "' + MIXED + '"',
    "secret_in_environment": "export DEPLOY_TOKEN=" + MIXED,
}


def adding(*lines: str, path: str = "s.py") -> tuple:
    body = "".join(f"+{line}\n" for line in lines)
    patch = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\nindex 0000000..1111111\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{body}"
    )
    return read_patch(patch.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("rule", SECRETS)
def test_each_kind_is_found_once_with_its_place(rule):
    (finding,) = scan_added(adding("first", f"x = {SECRETS[rule]}"))
    assert (finding.rule, finding.path, finding.line) == (rule, "s.py", 2)


@pytest.mark.parametrize("rule", SECRETS)
def test_no_finding_repeats_its_secret(rule):
    secret = SECRETS[rule]
    (finding,) = scan_added(adding(secret))
    assert len(finding.preview) <= 5
    told = repr(finding).replace(rule, "")
    assert not any(secret[at : at + 8] in told for at in range(len(secret) - 8))


@pytest.mark.parametrize("rule", SECRETS)
def test_masking_leaves_nothing_to_find(rule):
    masked = mask(f"before {SECRETS[rule]} after\nnext line")
    assert REDACTED in masked
    assert masked.startswith("before ")
    assert masked.endswith("next line")
    assert scan_added(adding(*masked.split("\n"))) == []


def test_masking_takes_a_whole_key_block():
    body = "\n".join(ALNUM[n : n + 64] for n in range(0, 192, 64))
    block = f"{PEM.format('OPENSSH ')}\n{body}\n{PEM.format('OPENSSH ').replace('BEGIN', 'END')}"
    assert mask(f"a\n{block}\nb") == f"a\n{REDACTED}\nb"
    assert mask(f"a\n{PEM.format('')}\n{body}\n") == f"a\n{REDACTED}\n"


HARMLESS = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    "aws_secret_access_key = " + "wJalrXUtnFEMI" + "/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    "STRIPE = '" + "sk" + "_test_" + ALNUM[:24] + "'",
    '"integrity": "sha512-' + ALNUM[:86] + '=="',
    "    --hash=sha256:" + HEX * 2,
    'content-hash = "' + HEX * 2 + '"',
    '"js-tokens": "^4.0.0"',
    "commit 9f86d081884c7d659a2feaa0c55ad0159f86d081",
    'token_id = "123e4567-e89b-12d3-a456-426614174000"',
    'password = os.environ["APP_PASSWORD_2024"]',
    'password_hash = "pbkdf2_sha256$' + HEX + '"',
    'API_KEY = "${API_KEY_FROM_VAULT1}"',
    "API_KEY=<your-api-key-1234567890>",
    'secret = "changeme-changeme-1"',
    'secret_key = "aaaaaaaaaaaaaaaa1"',
    "postgres://postgres:postgres1@localhost:5432/app",
    "postgres://user:password@db.prod.internal/app",
    "redis://cache:cache@cache.internal",
    'token = request.headers["X-Token"]',
    "def test_token_is_refreshed_after_3600_seconds(self):",
    'public_key = "' + MIXED + '"',
    "sk-learn-contrib-is-a-library-name-with-many-words",
    "ssh-rsa AAAAB3NzaC1yc2E" + ALNUM[:100],
    DASHES + "BEGIN PUBLIC KEY" + DASHES,
    DASHES + "BEGIN CERTIFICATE" + DASHES,
]


@pytest.mark.parametrize("line", HARMLESS)
def test_what_is_no_key_to_anything_is_no_finding(line):
    assert scan_added(adding(line)) == []
    assert mask(line) == line


def test_a_removed_key_is_counted_and_does_not_block():
    result = scan(read_patch(GUARD_CASES["secret_removed"].patch))
    assert (result.added, result.removed, result.kept) == ([], 1, 0)


def test_a_key_in_context_does_not_block():
    result = scan(read_patch(GUARD_CASES["secret_context"].patch))
    assert (result.added, result.removed, result.kept) == ([], 0, 1)


@pytest.mark.parametrize("name", ["secret_added", "secret_allow"])
def test_an_added_key_blocks_whatever_its_comment_says(name):
    (finding,) = scan_added(read_patch(GUARD_CASES[name].patch))
    assert (finding.path, finding.line, finding.preview) == ("s.py", 2, "AKIA…")


def test_no_file_name_switches_the_scan_off():
    for path in ("tests/fixtures/fake.py", ".secrets.baseline", "package-lock.json"):
        assert len(scan_added(adding(f"k = '{KEY}'", path=path))) == 1


def test_a_key_behind_a_unicode_line_separator_is_on_the_added_line():
    (finding,) = scan_added(read_patch(CASES["hidden_ls"].patch))
    assert finding.line == 2


def test_bytes_that_are_not_utf8_do_not_hide_a_key():
    assert len(scan_added(adding(f"caf\udce9 = '{KEY}'"))) == 1


def test_fingerprints_tell_secrets_apart_and_can_be_keyed():
    first, second, again = scan_added(adding(KEY, KEY[:-1] + "E", KEY))
    assert first.fingerprint == again.fingerprint != second.fingerprint
    (keyed,) = scan_added(adding(KEY), key=b"server")
    assert keyed.fingerprint != first.fingerprint


def test_two_secrets_on_one_line_are_two_findings():
    assert len(scan_added(adding(f"{KEY} {SECRETS['github_token']}"))) == 2


@pytest.mark.parametrize(
    "path",
    [".gitleaks.toml", "sub/.gitleaksignore", ".secrets.baseline", ".github/CODEOWNERS", ".talismanrc"],
)
def test_changed_scanner_rules_are_flagged(path):
    assert [entry["path"] for entry in scanner_config(adding("x", path=path))] == [path]


def test_scanner_rules_of_the_field_case_are_flagged():
    (entry,) = scanner_config(read_patch(GUARD_CASES["scanner_config"].patch))
    assert entry["what"] == "changes the secret scanner's rules"
    assert scanner_config(read_patch(CASES["crlf"].patch)) == []


def test_a_long_line_is_scanned_in_linear_time():
    for filler in ("key_", "key ", 'token="', "eyJ", "a:b@", "://x:"):
        assert [f.rule for f in scan_added(adding(filler * 20_000 + " " + KEY))] == ["aws_access_key_id"]


PART = "MIIEowIBAAKCAQEA" + "y8Dbv8prpJ"
BLOCK = [PEM.format("RSA "), *[PART] * 3, PEM.format("RSA ").replace("BEGIN", "END")]


def test_every_line_of_a_key_over_several_lines_is_masked_and_no_other():
    assert mask_lines(["before", *BLOCK, "after"]) == ["before", *[REDACTED] * 5, "after"]
    assert mask_lines([f"k = '{KEY}'", PART]) == [f"k = '{REDACTED}'", PART]


def test_a_part_of_a_hunk_hides_a_key_that_begins_before_it():
    (file,) = adding("first", *BLOCK, "last")
    assert [line.text for line in masked_hunk(file.hunks[0], 2, 7)] == [*[REDACTED] * 4, "last"]
    (file,) = adding(f"k = '{KEY}'")
    assert [line.text for line in masked_hunk(file.hunks[0])] == [f"k = '{REDACTED}'"]


def test_json_loses_the_secrets_in_its_texts_and_nothing_else():
    clean = {
        "operation_id": "op-1",
        "cost_usd": "0.09",
        "n": 3,
        "list": ["a", None, True],
        "inner": {"b": 1.5},
    }
    assert without_secrets(clean) is clean
    key = "AKIA" + "Z7Q4M2X9T1B6K3WD"
    held = {**clean, "list": ["a", f"key={key}"], "operation_id": f"op-{key}"}
    assert without_secrets(held) == {**held, "list": ["a", "key=[redacted]"]}


@pytest.mark.parametrize(
    "digest", ["a1" * 32, "0123456789abcdef" * 4, "c" * 40, "art_01JZZZZZZZZZZZZZZZZZZZZZZZ"]
)
def test_digests_and_ids_are_no_secrets(digest):
    assert without_secrets({"patch_sha256": digest}) == {"patch_sha256": digest}
