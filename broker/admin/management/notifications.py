"""Notifications (Artemis) and advisories (ActiveMQ Classic): messages about what happens to clients of this edge.

    activemq.notifications                    _AMQ_NotifType:CONSUMER_CREATED, _AMQ_Address:orders, …
    ActiveMQ.Advisory.Consumer.Queue.orders   the same for clients of Classic, with a body of JSON

They are messages of a topic, not durable: who is not subscribed misses them. What happens in a virtual host is told
there, too, with names as its clients know them.

Rule: telling never holds up who is told of. What comes faster than it can be published is dropped, and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from broker.core.address import Routing
from broker.core.commands import Command, Publish
from broker.core.errors import RefusedError
from broker.core.ids import slot_of
from broker.core.metrics import Metric
from broker.core.notices import ADVISORIES, NOTIFICATIONS, Notice, NoticeKind
from broker.core.virtual_host import split

from ..desk import shown_messages
from ..desk.desk import Desk
from .destination_watch import DestinationWatch

log = logging.getLogger("stampede.admin")

MOST: Final = 2000
"""Wait to be published; what comes then is dropped."""
PIECE: Final = 200
"""Of those that come together are made in one step: a millisecond."""
_CLOSING = (
    NoticeKind.CONNECTION_DESTROYED, NoticeKind.CONSUMER_CLOSED, NoticeKind.ADDRESS_REMOVED,
    NoticeKind.TEMPORARY_REMOVED,
)  # fmt: skip
_OF_CONSUMERS = (NoticeKind.CONSUMER_CREATED, NoticeKind.CONSUMER_CLOSED, NoticeKind.CONSUMER_SLOW)
_OF_ADDRESSES = (NoticeKind.ADDRESS_ADDED, NoticeKind.ADDRESS_REMOVED)
_OF_TEMPORARIES = (NoticeKind.TEMPORARY_ADDED, NoticeKind.TEMPORARY_REMOVED)
_CLASSIC_ONLY = (*_OF_TEMPORARIES, NoticeKind.FULL)
_OF_CONNECTIONS = (NoticeKind.CONNECTION_CREATED, NoticeKind.CONNECTION_DESTROYED)


class Notifications:
    """desk: publishes.    edge: its name, told as the origin.    now: milliseconds since 1970."""

    def __init__(self, desk: Desk, edge: str, now: Callable[[], int]) -> None:
        self._desk = desk
        self._edge = edge
        self._now = now
        self._waiting: deque[tuple[Notice, int]] = deque()
        self._several: deque[Iterator[Notice]] = deque()
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._consumers: Counter[tuple[str, bool]] = Counter()
        self._told = 0
        self._dropped = 0

    def watch(self, watch: DestinationWatch) -> None:
        """Addresses that come and go are told of, too."""
        self._watching = asyncio.get_running_loop().create_task(watch.run(), name="destination watch")

    def notify(self, notice: Notice | Iterator[Notice]) -> None:
        """core.notices.Notify."""
        if isinstance(notice, Notice):
            if not self._several:
                self._one(notice)
                return
            # Behind what came before it: a client that is back at once has not two consumers.
            notice = iter((notice,))
        self._several.append(notice)
        if len(self._several) == 1:
            asyncio.get_running_loop().call_soon(self._some)

    def _some(self) -> None:
        """The next of those that came together."""
        left = PIECE
        while self._several and left > 0:
            some = list(islice(self._several[0], left))
            for notice in some:
                self._one(notice)
            if len(some) < left:
                self._several.popleft()
            left -= len(some) or 1
        if self._several:
            asyncio.get_running_loop().call_soon(self._some)

    def _one(self, notice: Notice) -> None:
        place = notice.address, notice.topic
        if notice.kind is NoticeKind.CONSUMER_CREATED:
            self._consumers[place] += 1
        elif notice.kind is NoticeKind.CONSUMER_CLOSED:
            self._consumers[place] -= 1
            if self._consumers[place] <= 0:  # one look, however many addresses have consumers
                del self._consumers[place]
        if len(self._waiting) >= MOST:
            self._dropped += 1
            return
        self._waiting.append((notice, self._consumers[place]))
        self._something.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="notifications")

    async def _tell(self) -> None:
        with self._desk.errand() as errand:
            while True:
                await self._something.wait()
                self._something.clear()
                while self._waiting:
                    notice, consumers = self._waiting.popleft()
                    for address, headers, body in self._messages(notice, consumers):
                        await self._publish(errand.ask, address, headers, body)

    async def _publish(self, ask: Callable[..., object], address: str, headers: dict[str, str], body: bytes) -> None:
        run = shown_messages.made(headers, body, durable=False, priority=4)

        def publish(session: int, seq: int) -> Command:
            return Publish(slot_of(address), session, seq, address, Routing.MULTICAST, run, None, True)

        try:
            await ask(publish)  # type: ignore[misc]
            self._told += 1
        except RefusedError as error:
            log.debug("%s: %s", address, error)  # nobody has subscribed: the address is not there

    def _messages(self, notice: Notice, consumers: int) -> Iterator[tuple[str, dict[str, str], bytes]]:
        """(address, headers, body)."""
        yield from self._told_of(notice, consumers)
        host = notice.host
        if host.name:
            user, client_id, address = (split(each).local for each in (notice.user, notice.client_id, notice.address))
            local = notice._replace(user=user, client_id=client_id, address=address)
            for address, headers, body in self._told_of(local, consumers):
                yield host.inside(address), headers, body

    def _told_of(self, notice: Notice, consumers: int) -> Iterator[tuple[str, dict[str, str], bytes]]:
        if notice.kind not in _CLASSIC_ONLY:
            yield NOTIFICATIONS, {"destination": NOTIFICATIONS, **self._headers(notice, consumers)}, b""
        place = advisory_of(notice)
        if place:
            told = {"destination": f"/topic/{place}", "originBrokerName": self._edge, "originBrokerId": self._edge,
                    "type": "Advisory"}  # fmt: skip
            if notice.kind in _OF_CONSUMERS:
                told["consumerCount"] = str(consumers)
            body = msgspec.json.encode(_body(notice))
            yield place, {**told, "transformation": "jms-advisory-json", "content-length": str(len(body))}, body

    def _headers(self, notice: Notice, consumers: int) -> dict[str, str]:
        told = {"_AMQ_NotifType": notice.kind.value, "_AMQ_NotifTimestamp": str(self._now())}
        if notice.kind in _OF_ADDRESSES:
            return {**told, "_AMQ_Address": notice.address, "_AMQ_RoutingType": str(int(not notice.topic))}
        told |= {
            "_AMQ_User": notice.user,
            "_AMQ_RemoteAddress": notice.peer, "_AMQ_ConnectionName": f"{self._edge}-{notice.connection}",
            "_AMQ_Protocol_Name": "STOMP",
        }  # fmt: skip
        if notice.client_id:
            told["_AMQ_Client_ID"] = notice.client_id
        if notice.address:
            told |= {
                "_AMQ_Address": notice.address, "_AMQ_ConsumerCount": str(consumers),
                "_AMQ_RoutingType": str(int(not notice.topic)), "_AMQ_SessionName": notice.subscription,
            }  # fmt: skip
        return told

    async def stop(self) -> None:
        tasks = {task for task in (self._task, self._watching) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def metrics(self) -> Iterable[Metric]:
        yield Metric("stomp_notifications_total", "counter", "Notifications and advisories that were published "
                     "(edge.notifications).", [({}, self._told)])  # fmt: skip
        yield Metric("stomp_notifications_dropped_total", "counter", "Notifications dropped because they came faster "
                     "than they could be published.", [({}, self._dropped)])  # fmt: skip


def advisory_of(notice: Notice) -> str:
    """Where clients of Classic look for it; "": nowhere."""
    if notice.kind in _OF_CONNECTIONS:
        return ADVISORIES + "Connection"
    if not notice.address or split(notice.address).local.startswith((ADVISORIES, NOTIFICATIONS)):
        return ""
    sort = "Topic" if notice.topic else "Queue"
    if notice.kind in _OF_ADDRESSES:
        return ADVISORIES + sort
    if notice.kind in _OF_TEMPORARIES:
        return f"{ADVISORIES}Temp{sort}"
    kind = {NoticeKind.CONSUMER_SLOW: "SlowConsumer", NoticeKind.FULL: "FULL"}.get(notice.kind, "Consumer")
    return f"{ADVISORIES}{kind}.{sort}.{notice.address}"


def _body(notice: Notice) -> dict[str, dict[str, str | int]]:
    """As Classic's JSON transformation names them."""
    connection: dict[str, str | int] = {
        "connectionId": str(notice.connection), "clientId": notice.client_id, "userName": notice.user,
        "clientIp": notice.peer,
    }  # fmt: skip
    if notice.kind in _OF_CONNECTIONS:
        kind = "RemoveInfo" if notice.kind in _CLOSING else "ConnectionInfo"
        return {kind: connection}
    sort = "topic" if notice.topic else "queue"
    destination = f"{f'temp-{sort}' if notice.kind in _OF_TEMPORARIES else sort}://{notice.address}"
    if notice.kind in _OF_ADDRESSES or notice.kind in _CLASSIC_ONLY:
        kept = {} if notice.kind in _OF_ADDRESSES else connection
        return {"DestinationInfo": {**kept, "destination": destination, "operationType": int(notice.kind in _CLOSING)}}
    kind = "RemoveInfo" if notice.kind in _CLOSING else "ConsumerInfo"
    consumer = f"{notice.connection}:{notice.subscription}"
    return {kind: {**connection, "consumerId": consumer, "destination": destination}}
