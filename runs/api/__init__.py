"""The REST API: parse, authorise, call the service, serialise. No rule of the product is decided here."""
