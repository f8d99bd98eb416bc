"""The entry of ``STORAGES`` for artifacts in an object store that speaks S3 (django-storages; an extra)."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from django.core.exceptions import ImproperlyConfigured

_FORM: Final = "ARTIFACT_STORE_URL must be s3://bucket/folder?endpoint_url=https://…&region_name=…"
_OPTIONS: Final = frozenset({"endpoint_url", "region_name", "addressing_style"})
_CONNECT_SECONDS, _READ_SECONDS, _TRIES = 5, 30, 3


def storage(url: str) -> dict[str, Any]:
    """What ``STORAGES`` says of the address ``s3://bucket/folder?endpoint_url=…``.

    Credentials come from where the S3 client looks for them itself: AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY, a profile, or the machine's role; so they stand in no address and in no log.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if parts.scheme != "s3" or not parts.netloc:
        raise ImproperlyConfigured(f"{_FORM}.")
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ImproperlyConfigured(f"{_FORM}; it has no option {unknown[0]!r}.")
    if parts.username or parts.password:
        raise ImproperlyConfigured(f"{_FORM}; keys are given by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    try:
        from botocore.config import Config
    except ImportError:
        raise ImproperlyConfigured(
            "ARTIFACT_STORE_URL needs an extra: pip install --require-hashes -r requirements.production.lock."
        ) from None
    client = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": _TRIES, "mode": "standard"},
        s3={"addressing_style": options.pop("addressing_style", "auto")},
        # What only speaks like S3 seldom knows its newer checksums; every reading is checked by its digest.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": parts.netloc,
            "location": parts.path.strip("/"),
            "client_config": client,
            "file_overwrite": True,  # the same name is the same bytes
            "object_parameters": {"ContentType": "application/octet-stream"},
            **options,
        },
    }
