"""A past for demonstrations: runs of the last days, posted through the service as if they were happening."""
