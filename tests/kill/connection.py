"""An asyncio STOMP 1.2 connection that knows in which life of the broker it was made.

Rule: no reconnecting and no resending here; whoever uses it decides what an unknown outcome means.
"""

from __future__ import annotations

import asyncio

from tests.harness import Frame, build

from .world import World

SHUTDOWN = "1604"


class Gone(Exception):
    """The connection has ended: killed broker, or not yet started."""


class Connection:
    """Made by `opened`. `life`: certainly the life of the broker at the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, life: int) -> None:
        self._reader = reader
        self._writer = writer
        self.life = life

    @classmethod
    async def opened(cls, world: World, **headers: object) -> Connection:
        """Raises Gone when there is no broker."""
        life = world.life
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", world.broker.port, limit=1 << 20)
        except OSError as error:
            raise Gone(str(error)) from None
        self = cls(reader, writer, life)
        try:
            self.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **headers})
            frame = await self.read()
            assert frame.command == "CONNECTED", frame
            if world.life != life:  # CONNECTED may be the last word of a broker that is dead by now
                raise Gone("the broker was restarted meanwhile")
        except Gone:
            await self.close()
            raise
        return self

    def send(self, command: str, headers: dict[str, object], body: bytes = b"") -> None:
        """Never fails: a dead connection is noticed by its reader."""
        self._writer.write(build(command, {name.replace("_", "-"): value for name, value in headers.items()}, body))

    async def room(self) -> None:
        """Waits while the socket takes no more. Raises Gone."""
        try:
            await self._writer.drain()
        except OSError as error:
            raise Gone(str(error)) from None

    async def read(self) -> Frame:
        """The next frame. Raises Gone when the connection ended, also inside a frame, or the broker says it stops."""
        try:
            head = (await self._reader.readuntil(b"\n\n"))[:-2]
            command, *lines = head.decode().lstrip("\n").split("\n")
            pairs = [(name, value) for name, _, value in (line.partition(":") for line in lines)]
            headers = dict(reversed(pairs))
            if "content-length" in headers:
                body = await self._reader.readexactly(int(headers["content-length"]) + 1)
            else:
                body = await self._reader.readuntil(b"\0")
        except (asyncio.IncompleteReadError, OSError) as error:
            raise Gone(str(error)) from None
        assert body.endswith(b"\0"), f"no NUL behind the body of {command} {pairs}"
        if headers.get("error-code") == SHUTDOWN:
            raise Gone("the broker is stopping")
        return Frame(command, pairs, headers, body[:-1])

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass
