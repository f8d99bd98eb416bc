"""Trying a worker, written in whatever language, against the control plane's hard cases.

    python -m worker conformance --command 'my-worker --url {url} --token-file {token_file}'

Each case starts the worker against a stand-in control plane with one run, does something unkind, and
says which promise of docs/worker-protocol.md broke.
"""
