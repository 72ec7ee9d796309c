"""gRPC's wake-ups of an event loop, taken all at once.

gRPC's thread writes one byte into a socket for each event, and its callback in the loop takes one byte and then all
events. What it does not take stays: with 20 events a turn the socket (room for some 280 such bytes) is full after 15
turns, and from then on the thread stands in write(2) and brings one event a turn. Beside turns of some milliseconds
nothing came from any owner for a quarter of a second (docs/reliability.md, `websocket`).

Rule: all bytes but one go before gRPC's callback, which takes that one: an event is always in gRPC's queue before its
byte is written, so none is forgotten. Imports no gRPC.
"""

# Example. Within one turn the thread has pushed events 1 to 20, and written 20 bytes.
#     before   the callback takes byte 1 and events 1 to 20; bytes 2 to 20 call it in 19 more turns, for nothing, and
#              stand before those of the next events
#     here     bytes 1 to 19 are taken; the callback takes byte 20 and events 1 to 20. Event 21, pushed meanwhile, goes
#              with them or has its byte still to be read

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_UNREAD = bytes(4)


@contextmanager
def whole_wakeups() -> Iterator[None]:
    """Around what makes a channel or a server of grpc.aio (grpc_ends.py): the first one in a loop registers the
    callback there. To be called in the running loop; costs nothing once the callback is there."""
    loop: Any = asyncio.get_running_loop()
    add_reader = loop.add_reader

    def add(wakeups: Any, callback: Callable[..., object], *args: object) -> None:
        if isinstance(wakeups, socket.socket):
            callback = drained(wakeups, callback)
        add_reader(wakeups, callback, *args)

    loop.add_reader = add
    try:
        yield
    finally:
        del loop.add_reader


def drained(wakeups: socket.socket, callback: Callable[..., object]) -> Callable[..., object]:
    """`callback`, which takes one byte of the socket, with all others taken first."""

    def call(*args: object) -> object:
        (unread,) = struct.unpack("i", fcntl.ioctl(wakeups, termios.FIONREAD, _UNREAD))
        if unread > 1:
            with suppress(BlockingIOError):  # another loop of this process has been quicker
                wakeups.recv(unread - 1)
        return callback(*args)

    return call
