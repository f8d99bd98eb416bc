"""Forges over REST: how each is talked to, and what an organisation or group holds."""
