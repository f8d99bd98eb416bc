"""The client library and the reference worker of Agent Platform.

It speaks to the control plane over HTTP alone and imports nothing of it.
"""

__version__ = "0.1.0"
