"""Large bodies of virtual clients: piece by piece to an owner when they are sent, and from one when they are received.

Rule: what a STOMP session does, and no more. While it sends a body it does nothing else; what lies behind a body that
is still coming it has not got yet; a body that breaks off, either way, is the end of the session.
Must not know links: the port's BodyWriter and BodyReader are all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.core.address import AckMode
from broker.core.commands import Publish
from broker.core.errors import Code
from broker.core.message import DURABLE, Blob, Run
from broker.link.owner_port import Away
from tests.sim.cluster_checkers import Holder, Message

if TYPE_CHECKING:
    from tests.sim.cluster_clients import Clients, Session

GONE = "is missing"
"""What an owner says of a file that is not there. No message that lives may have lost its body."""

STOPPING = "the edge is stopping"


class Sending:
    """A large SEND under way: the body first, its message when an owner has it. The session's `sending` meanwhile."""

    def __init__(self, clients: Clients, session: Session, publish: Publish, message: Message) -> None:
        self._clients = clients
        self._session = session
        self._publish = publish
        self._message = message
        self._left = message.large
        self._ended = False
        self._writer = clients.port.write_body(publish.slot, lambda: None)

    def step(self) -> None:
        """The next part of it, or the client gives up."""
        luck = self._clients.random.random()
        if luck < 0.03:
            self._clients.disconnect(self._session)
        else:
            self._write(len(self._left) if luck < 0.4 else 300)

    def end(self) -> None:
        """All the rest."""
        self._write(len(self._left))

    def abort(self) -> None:
        self._writer.abort()

    def _write(self, n: int) -> None:
        if self._left:
            piece, self._left = self._left[:n], self._left[n:]
            self._writer.write(piece)
        if not self._left and not self._ended:
            self._ended = True
            self._writer.finish(self._message.durable, self._stored)

    def _stored(self, blob: Blob | None, why: str) -> None:
        clients, session = self._clients, self._session
        if session.sending is not self or not clients.alive:
            return
        session.sending = None
        if blob is None:
            passing = isinstance(why, Away) and why.code is Code.OWNER_MOVED and why != STOPPING
            if clients.model.calm or (passing and clients.work.kept):
                clients.found(f"a large body cannot be sent although nothing is wrong: {why}")
            clients.disconnect(session)
            return
        if blob.length != len(self._message.large):
            clients.found(f"{len(self._message.large)} bytes were sent, {blob.length} stored")
        run = self._publish.run
        run.blob = blob
        clients.publish_stored(session, self._publish, self._message)


class Receiving:
    """A large MESSAGE on its way to a client. `over` is called once, when it is here or never will be."""

    def __init__(
        self,
        clients: Clients,
        session: Session,
        holder: Holder,
        body: bytes,
        run: Run,
        over: Callable[[Receiving], None],
    ) -> None:
        assert run.blob is not None
        self._clients = clients
        self._session = session
        self._holder = holder
        self._expected = body
        self._id = run.ids[0]
        self._over = over
        self._have = b""
        self._durable = bool(run.flags & DURABLE)
        self._reader = clients.port.read_body(holder.slot, run.blob, holder.number, self._id)
        holder.coming.add(self._id)
        self._want()

    def _want(self) -> None:
        self._reader.read(self._clients.random.choice((150, 500, 5000)), self._arrived)

    def _arrived(self, data: bytes | None, why: str) -> None:
        holder, expected = self._holder, self._expected
        if holder.ended or not self._clients.alive:
            self._end()
        elif not data:
            self._failed(why or f"{len(self._have)} of {len(expected)} bytes, and no more")
        else:
            self._have += data
            if not expected.startswith(self._have):
                self._clients.found(f"body {self._expected[:20]!r} differs")
            if len(self._have) < len(expected):
                self._want()
            else:
                self._whole()

    def _whole(self) -> None:
        if self._holder.ack is AckMode.AUTO:
            self._clients.model.arrived(self._holder, self._id)
            self._clients.port.arrived(self._holder.number, self._id)
        self._end()

    def _end(self) -> None:
        self._reader.close()
        self._holder.coming.discard(self._id)
        self._over(self)

    def _failed(self, why: str) -> None:
        lost = GONE in why or "no more" in why or (self._durable and why != STOPPING)
        if (lost and not self._holder.doubtful) or self._clients.model.calm:
            self._clients.found(f"body {self._expected[:20]!r} cannot be read for {self._holder}: {why}")
        self._end()
        if self._session.number in self._clients.sessions:
            self._clients.disconnect(self._session)
