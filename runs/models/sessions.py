"""Sessions of people: whose they are, from where they were begun, and no key that would open one.

The cookie holds a random key; the table holds its digest. Who reads the table cannot sign in with it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Now

#: Where the sign-in leaves what the list of sessions shows.
BEGUN_AT, ADDRESS, BROWSER = "begun_at", "address", "browser"


class Session(AbstractBaseSession):
    """One browser of one person. Deleting it signs that browser out."""

    person = models.ForeignKey(
        "runs.Person", null=True, blank=True, on_delete=models.CASCADE, related_name="sessions"
    )
    begun_at = models.DateTimeField(null=True, blank=True, help_text="When they signed in.")
    address = models.CharField(max_length=64, blank=True, help_text="From where.")
    browser = models.CharField(max_length=200, blank=True, help_text="What it called itself.")

    class Meta(AbstractBaseSession.Meta):
        db_table = "sessions"

    def __str__(self) -> str:
        return f"session of {self.person or 'nobody'}"

    @classmethod
    def get_session_store_class(cls) -> type[SessionStore]:
        """What reads and writes it."""
        return SessionStore


def digest(key: str) -> str:
    """What the table holds of a key: 160 bits of its SHA-256."""
    return hashlib.sha256(key.encode()).hexdigest()[:40]


class SessionStore(DatabaseStore):
    """Django's sessions in the database, by the digest of their key."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        """The table."""
        return Session

    def _get_session_from_db(self) -> Session | None:
        key = self.session_key
        found = Session.objects.filter(session_key=digest(key or ""), expire_date__gt=Now()).first()
        if found is None:
            self._session_key = None
        return found

    def exists(self, session_key: str) -> bool:
        """Whether there is one under this key."""
        return Session.objects.filter(session_key=digest(session_key)).exists()

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        """The row of this session."""
        return Session(
            session_key=digest(self._get_or_create_session_key()),  # type: ignore[attr-defined]
            session_data=self.encode(data),
            expire_date=self.get_expiry_date(),
            person_id=data.get("_auth_user_id"),
            begun_at=data.get(BEGUN_AT),
            address=data.get(ADDRESS, ""),
            browser=data.get(BROWSER, ""),
        )

    def delete(self, session_key: str | None = None) -> None:
        """End the one under this key, or this one."""
        key = session_key or self.session_key
        if key:
            Session.objects.filter(session_key=digest(key)).delete()
