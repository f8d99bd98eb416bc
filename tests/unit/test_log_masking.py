"""Secrets in output that arrives in pieces are masked byte for byte."""

from __future__ import annotations

import pytest

from runs.domain.log_masking import is_same, mask_bytes, unfinished_word

TOKEN = b"AKIA" + b"Z7Q4M2X9T1B6K3WD"
TEXT = b"key=" + TOKEN + b" used\n"
MASKED = b"key=[redacted]********** used\n"


@pytest.mark.parametrize("cut", range(1, len(TEXT)))
def test_cut_anywhere_it_is_masked_once_it_is_whole(cut):
    joined = mask_bytes(mask_bytes(TEXT[:cut]) + TEXT[cut:])
    assert joined == MASKED
    assert is_same(MASKED, TEXT[:cut], 0, cut)
    assert is_same(MASKED, TEXT[cut:], cut, len(TEXT))


def test_what_is_masked_stays_as_it_is():
    assert mask_bytes(MASKED) == MASKED
    assert mask_bytes(b"password = \xff" + MASKED).endswith(b" used\n")


def test_only_what_was_masked_may_differ():
    assert not is_same(MASKED, b"kez=" + TOKEN, 0, 24)
    assert not is_same(MASKED, b"key=" + TOKEN + b" used", 0, 24)
    assert not is_same(MASKED, b" USED", 24, 29)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (b"passed\n", 0),
        (b"key=AKIAZ7Q4", 12),
        (b"a eyJhbGciOi.eyJzdWIi.", 20),
        (b"test_clock ........", 0),
        (b"x" * 20_000, 0),
        (b"caf\xc3", 0),
        (b"", 0),
    ],
)
def test_an_unfinished_word_is_what_a_secret_may_begin_with(text, held):
    assert unfinished_word(text) == held


def test_a_key_is_masked_line_by_line_and_nothing_behind_it():
    lines = [b"-----BEGIN PRIVATE KEY-----", *[b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"] * 3, b"c2hvcnQ="]
    text = b"\n".join([*lines, b"-----END PRIVATE KEY-----", b"ThisIsAnOrdinaryWordOfTheLog", b""])
    stored = b""
    for line in text.splitlines(keepends=True):
        stored = mask_bytes(stored + line)
        assert b"MIIEvQ" not in stored
    assert stored == mask_bytes(text)
    assert stored.split(b"\n")[4:] == [b"*" * 8, *text.split(b"\n")[5:]]
    assert is_same(stored, text, 0, len(text))
