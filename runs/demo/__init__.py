"""Demonstration data: people, a repository and requests that show the product at work."""
