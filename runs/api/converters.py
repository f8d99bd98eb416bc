"""What an id looks like in an address: anything else is not found before the database is asked."""

from __future__ import annotations

from django.urls import register_converter


class UlidConverter:
    """A prefixed ULID, such as ``run_01J…``."""

    regex = r"[a-z]{2,10}_[0-9A-HJKMNP-TV-Z]{26}"

    def to_python(self, value: str) -> str:
        """As it is."""
        return value

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


register_converter(UlidConverter, "ulid")
