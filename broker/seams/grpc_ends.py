"""Channels and servers of grpc.aio: the one place where they are made.

The first one in an event loop registers gRPC's callback there, for good; made elsewhere, it would be the callback that
leaves wake-ups behind (grpc_wakeups.py), and nothing but slow turns would show it.

Rule: nobody else calls what makes them (tests/architecture/test_house.py). To be called in the running loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import grpc.aio

from .grpc_wakeups import whole_wakeups

Options = Sequence[tuple[str, object]]


def channel(address: str, credentials: grpc.ChannelCredentials | None, options: Options) -> grpc.aio.Channel:
    """To an address, with TLS or (None) without; it is dialled with its first call."""
    with whole_wakeups():
        if credentials is None:
            return grpc.aio.insecure_channel(address, options=options)
        return grpc.aio.secure_channel(address, credentials, options=options)


def server(options: Options) -> grpc.aio.Server:
    """Without a port yet. The caller keeps it: gRPC silently stops listening when it is collected."""
    with whole_wakeups():
        return grpc.aio.server(options=options)
