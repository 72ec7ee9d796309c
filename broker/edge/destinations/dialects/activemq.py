"""Names as ActiveMQ Classic has them: composite destinations, `>`, virtual topics, temporary destinations, `activemq.*`
headers, deliveries that repeat.

Rule: names in, addresses out; pure. What Classic takes in silence and we have not is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.config.acceptor import AcceptorSettings
from broker.config.addressing import AddressSettings
from broker.config.ports import prefixes
from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.core.management import SCHEDULER, STATISTICS
from broker.core.notices import is_advisory, of_messages
from broker.engine.publishing.recurrence import FOR_EVER, LONGEST_BURST_MS, Recurrence, tick

from ..dialect import (
    FAR_FUTURE,
    MAX_DESTINATION,
    Destination,
    Dialect,
    Homes,
    durable_name,
    whole_number,
    yes,
)
from ..foreign_headers import ARGUMENTS, MISSPELT, SPELT, check_numbers
from ..temporary import OWN, THEIRS, Private

IN_SEND: Final[Mapping[str, str]] = {
    "AMQ_SCHEDULER_ACTION": f"it is for {SCHEDULER}",
    "transformation": "a body is bytes, or a map (jms-map-json, jms-map-xml); transform others in the client",
}
"""Header of SEND → what to do instead."""
AS_SENT: Final = ("jms-byte", "jms-map-json", "jms-map-xml")
"""Values of `transformation` of SEND: bytes are bytes, a map is relayed in the form it has."""
FORMS: Final[Mapping[str, str]] = {
    "jms-map-json": "jms-map-json", "jms-json": "jms-map-json", "jms-map-xml": "jms-map-xml", "jms-xml": "jms-map-xml",
}  # fmt: skip
"""Value of `transformation` of SUBSCRIBE → the form in which maps are wanted."""
IN_SUBSCRIBE: Final[Mapping[str, str]] = {
    MISSPELT: f"it is spelt {SPELT}",
    "activemq.networkSubscription": "there are no networks of brokers here: a cluster is one broker",
    "transformation": "maps come as jms-map-json or jms-map-xml; transform others in the client",
}
"""Header of SUBSCRIBE → what to do instead."""
UNCHANGED: Final[Mapping[str, tuple[str, ...]]] = {"transformation": (*FORMS, "jms-advisory-json")}
"""Header of SUBSCRIBE → values that are let in. Texts are never changed, and advisories are JSON."""
BY_SETTINGS: Final[Mapping[str, str]] = {
    "activemq.exclusive": "exclusive",
    "activemq.retroactive": "retroactive_messages",
    "activemq.maximumPendingMessageLimit": "ring_size",
}
"""Header of SUBSCRIBE → setting of the address that does it; let in when that says the same."""
TAKEN: Final = ("activemq.dispatchAsync", "activemq.prefetchSize", "activemq.priority", "activemq.noLocal",
                "activemq.subscriptionName", "browser", "selector")  # fmt: skip
"""Headers of SUBSCRIBE that mean the same here."""
PERIOD, REPEAT = "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT"
CRON, ZONE = "AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_ZONE"
MOST_REPEATS = (1 << 31) - 1
"""What Classic can count to."""
_NOTHING = ("", "false", "0", "-1")
OPTIONS: Final = ("dispatchAsync", "exclusive", "maximumPendingMessageLimit", "networkSubscription", "noLocal",
                  "prefetchSize", "priority", "retroactive")  # fmt: skip
"""Behind a destination, as `?consumer.NAME=VALUE`, they are what the header activemq.NAME is."""


class Virtual(NamedTuple):
    """Queues that consume a topic: `Consumer.*.VirtualTopic.>` and how many words stand in front of the topic."""

    words: list[str]
    skip: int


class ActiveMQ(Dialect):
    """match: the settings of an address."""

    __slots__ = ("_match", "_virtual")
    name = "activemq"
    read = (PERIOD, REPEAT, CRON, ZONE)
    server = "ActiveMQ/5.17"
    full_v10 = True
    rejects = True
    prefetches_messages = True
    shows_temporaries = True
    queue_wildcards = True
    manages = False
    public: Mapping[str, str] = {"/temp-queue/": "/remote-temp-queue/", "/temp-topic/": "/remote-temp-topic/"}
    _match: Callable[[str], AddressSettings]
    _virtual: tuple[Virtual, ...]

    @classmethod
    def made(
        cls, acceptor: AcceptorSettings, delimiter: str, homes: Homes, match: Callable[[str], AddressSettings]
    ) -> ActiveMQ:
        """From the settings of an acceptor."""
        found = cls.of(acceptor.anycast_prefix, acceptor.multicast_prefix, delimiter, homes)
        found._match = match
        found._virtual = tuple(map(virtual, prefixes(acceptor.virtual_topic_consumers)))
        return found

    @property
    def key(self) -> tuple[object, ...]:
        return *super().key, str(self._virtual)

    # ── destinations ───────────────────────────────────────────────────────────────────────────────

    def _resolve(self, destination: str, type_header: str | None, header_name: str) -> Destination:
        if len(destination) > MAX_DESTINATION:
            raise RefusedError(Code.BAD_DESTINATION, f"longer than {MAX_DESTINATION} characters")
        named = [self._single(name, destination) for name in destination.split(",")]
        # Classic has them in a set: who is named twice gets one copy.
        first, *more = {(each.address, each.routing, each.queue): each for each in named}.values()
        if not more:
            return first
        first, *more = [each._replace(shown=each.shown or self._name(each)) for each in (first, *more)]
        return first._replace(more=tuple(more))

    def _name(self, target: Destination) -> str:
        """One of a composite destination, as if it had been named alone."""
        prefix = next((prefix for prefix, meaning in self.prefixes if meaning is target.routing), "")
        return prefix + target.address + ("" if target.queue is None else f"::{target.queue}")

    def _single(self, name: str, destination: str) -> Destination:
        if destination != name and name.startswith((*OWN, *THEIRS)):
            raise RefusedError(
                Code.BAD_DESTINATION, f"'{destination[:100]}': temporary destinations are named one by one"
            )
        target = super()._resolve(self._words(name), None, "")
        if target.routing is Routing.UNSET:
            target = target._replace(routing=Routing.ANYCAST)
        return self._consumer(target) or target

    def _words(self, name: str) -> str:
        """`>` as we write it. Raises RefusedError for a word that no one would take for what it is."""
        if ">" not in name and "#" not in name:
            return name
        start = next((len(prefix) for prefix, _ in self.prefixes if name.startswith(prefix)), 0)
        words = name[start:].split(self.delimiter)
        if "#" in words or ">" in words[:-1]:
            raise RefusedError(
                Code.BAD_DESTINATION, f"'{name[:100]}': wildcards are * for a word and > for the rest, as the last word"
            )
        if words[-1] == ">":
            words[-1] = "#"
        return name[:start] + self.delimiter.join(words)

    def _consumer(self, target: Destination) -> Destination | None:
        """The topic behind a queue that is a consumer of it."""
        if target.routing is not Routing.ANYCAST or target.queue is not None:
            return None
        words = target.address.split(self.delimiter)
        for each in self._virtual:
            if len(words) > each.skip and _begins(each.words, words):
                topic = self.delimiter.join(words[each.skip :])
                shown = self._name(target)
                return Destination(topic, Routing.MULTICAST, target.address, durable=True, create=False, shown=shown)
        return None

    def tells(self, address: str) -> bool:
        return is_advisory(address)

    def _told(self, destination: str) -> Destination | None:
        found = self._of_messages(destination) or super()._told(destination)
        if found is None or not found.address.endswith(".>"):
            return found
        return found._replace(address=found.address[:-1] + "#")

    def _of_messages(self, destination: str) -> Destination | None:
        """An advisory of single messages. Raises RefusedError where nobody tells it."""
        name = next((destination[len(each) :] for each, routing in self.prefixes if routing is Routing.MULTICAST
                     and destination.startswith(each)), destination)  # fmt: skip
        if (told := of_messages(name)) is None:
            return None
        kind, about = told
        if ">" in about or "*" in about:  # of some addresses, of which one may tell it
            return Destination(name, Routing.MULTICAST, None)
        if kind not in self._match(self.host.inside(about)).message_advisories.split(","):
            raise RefusedError(
                Code.BAD_DESTINATION,
                f"'{destination[:100]}' is told nothing: set engine.addresses.\"{about[:100]}\".message_advisories = "
                f'"{kind}"',
            )
        return Destination(name, Routing.MULTICAST, None)

    def _subscribed(self, headers: Mapping[str, str]) -> Destination:
        """A consumer of a virtual topic is made by who consumes it, never by a SEND to it. Who subscribes to several
        destinations is told what senders wrote."""
        found = super()._subscribed(headers)._replace(create=True)
        if not found.more:
            return found
        return found._replace(shown="", more=tuple([each._replace(shown="") for each in found.more]))

    # ── SEND ───────────────────────────────────────────────────────────────────────────────────────

    def private(self, headers: Mapping[str, str]) -> Private | None:
        found = super().private(headers)
        manages = self._asks(headers, SCHEDULER) or self._asks(headers, STATISTICS)
        return (found or Private())._replace(manages=True) if manages else found

    def _asks(self, headers: Mapping[str, str], whom: str) -> bool:
        """Is it a request to that address; one that ends with a dot: to what begins so."""
        destination = headers.get("destination", "")
        prefix, found, rest = destination.partition(whom)
        return bool(found) and (not rest or whom[-1] == ".") and prefix in ("", *dict(self.prefixes))

    def check_send(self, headers: Mapping[str, str]) -> None:
        for name in headers.keys() & (IN_SEND.keys() | ARGUMENTS.keys()):
            if name == "AMQ_SCHEDULER_ACTION" and self._asks(headers, SCHEDULER):
                continue
            if name == "transformation" and headers[name].strip() in AS_SENT:
                continue
            raise _refusal(name, headers[name], IN_SEND.get(name, "it is RabbitMQ's; see `dialect` of the acceptor"))
        check_numbers(headers)
        kind = headers.get("amq-msg-type", "text")
        if kind not in ("text", "bytes"):
            raise _refusal("amq-msg-type", kind, "a body is bytes, with a content-type; text or bytes")

    def recurrence(self, headers: Mapping[str, str], delay: int) -> Recurrence | None:
        """Once after the delay (without one after the period), and again after each period; all of that each time that
        cron says."""
        period = whole_number(headers, PERIOD, 0, FAR_FUTURE) or 0
        repeat = whole_number(headers, REPEAT, FOR_EVER, MOST_REPEATS) or 0
        cron, zone = headers.get(CRON, "").strip(), headers.get(ZONE, "").strip()
        if repeat and not period:
            raise _refusal(REPEAT, headers[REPEAT], f"it needs {PERIOD} beside it")
        if zone and not cron:
            raise _refusal(ZONE, zone, f"it needs {CRON} beside it")
        if not (period or cron):
            return None
        if cron:
            tick(cron, zone, 0)
            if repeat == FOR_EVER or delay + repeat * period > LONGEST_BURST_MS:
                raise _refusal(
                    REPEAT, headers.get(REPEAT, "0"), f"what {CRON} begins ends within an hour, with its delay"
                )
        return Recurrence(cron=cron, zone=zone, delay=delay, period=period, left=repeat)

    # ── SUBSCRIBE ──────────────────────────────────────────────────────────────────────────────────

    def options(self, headers: dict[str, str]) -> None:
        destination = headers.get("destination", "")
        name, _, options = destination.partition("?")
        if not options.startswith("consumer."):
            return
        for pair in options.split("&"):
            option, _, value = pair.partition("=")
            if (known := option.removeprefix("consumer.")) not in OPTIONS or known == option:
                raise RefusedError(
                    Code.BAD_DESTINATION, f"'{destination[:100]}': {option[:50]} is not here; known are consumer."
                    + ", consumer.".join(OPTIONS),
                )  # fmt: skip
            headers.setdefault(f"activemq.{known}", value)
        headers["destination"] = name

    def form(self, headers: Mapping[str, str]) -> str | None:
        return FORMS.get(headers.get("transformation", "").strip().lower())

    def check_subscribe(self, headers: Mapping[str, str], target: Destination) -> None:
        for name in headers.keys() & (IN_SUBSCRIBE.keys() | ARGUMENTS.keys()):
            if name == MISSPELT and SPELT in headers:
                continue  # clients that do not know which one counts send both
            if headers[name].strip().lower() not in (*_NOTHING, *UNCHANGED.get(name, ())):
                raise _refusal(name, headers[name], IN_SUBSCRIBE.get(name, "see `dialect` of the acceptor"))
        settings = self._match(target.address) if target.address else AddressSettings()
        for name in headers.keys() & BY_SETTINGS.keys():
            wanted, field = headers[name].strip().lower(), BY_SETTINGS[name]
            has = getattr(settings, field)
            said = str(has) if field == "ring_size" else str(bool(has)).lower()
            if wanted not in _NOTHING and wanted != said:
                raise _refusal(name, wanted, f'set engine.addresses."{target.address[:100]}".{field} (it is {has})')
        yes(headers, "activemq.dispatchAsync")
        if durable_name(headers) is not None and target.routing is Routing.ANYCAST:
            raise RefusedError(Code.BAD_DESTINATION, "cannot durably subscribe to a Queue")


def virtual(text: str) -> Virtual:
    """`Consumer.*.VirtualTopic.>;2`, as the settings were checked."""
    pattern, _, skip = text.partition(";")
    return Virtual(pattern.split(".")[:-1], int(skip))


def _begins(pattern: list[str], words: list[str]) -> bool:
    return len(words) > len(pattern) and all(p in ("*", w) for p, w in zip(pattern, words, strict=False))


def _refusal(name: str, value: str, instead: str) -> RefusedError:
    return RefusedError(Code.BAD_HEADER, f"{name}:{value[:50]} would have no effect here; {instead}")
