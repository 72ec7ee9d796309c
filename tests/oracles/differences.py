"""Where a real broker and our dialect answer a script otherwise, and why.

Rule: what differs in every script stands in RULES; each script that differs besides has an entry with exactly its lines
(`make oracles` compares). docs/compatibility-rabbitmq.md and docs/compatibility-activemq.md have the same reasons.
"""

# Lines as they were seen are not cut.
# ruff: noqa: E501

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class General:
    """A difference of every script: what the pattern finds in what was seen is replaced, theirs and ours."""

    reason: str
    pattern: str
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """reason: why it is not as theirs; lines: `- ` theirs, `+ ` ours."""

    reason: str
    lines: tuple[str, ...]


ENDS: Final = General("an ERROR ends the connection", r"(?m)^(\w+ ERROR.*)\n\w+ closed$", r"\1")
NAMES_RECEIPT: Final = General("an ERROR has the receipt-id of its frame", r"(?m)^(\w+ ERROR.*) receipt-id:\S+$", r"\1")
RULES: Final[Mapping[str, tuple[General, ...]]] = {
    "rabbitmq": (
        ENDS,
        NAMES_RECEIPT,
        General("receipt and transaction are the frame's, and not relayed", r" (receipt|transaction):\S+(?=.* \| )"),
    ),
    "activemq": (
        ENDS,
        NAMES_RECEIPT,
        General("the words of an ERROR are ours", r"(?m)^(\w+ ERROR message:).*$", r"\1*"),
    ),
}
RABBITMQ: Final[Mapping[str, Difference]] = {
    "bare name": Difference(
        "the destination of a MESSAGE is as its sender wrote it",
        (
            "- a MESSAGE destination:/queue/o.2 message-id:* redelivered:false subscription:1 | body",
            "+ a MESSAGE destination:o.2 message-id:* redelivered:false subscription:1 | body",
        ),
    ),
    "SEND without destination": Difference(
        "every header that is missing is called `Missing header`; the body names it",
        (
            "- a ERROR message:Missing destination",
            "+ a ERROR message:Missing header",
        ),
    ),
    "exchange that is not there": Difference(
        "a refused SUBSCRIBE has no RECEIPT; RabbitMQ sends it, and then the ERROR",
        ("- a RECEIPT receipt-id:s",),
    ),
    "amq queue that is not there": Difference(
        "a refused SUBSCRIBE has no RECEIPT",
        ("- a RECEIPT receipt-id:s",),
    ),
    "SEND to an amq queue that is not there": Difference(
        "refused; RabbitMQ drops it and sends the RECEIPT",
        (
            "- a RECEIPT receipt-id:r",
            "+ a ERROR message:not_found",
        ),
    ),
    "temporary queue and reply": Difference(
        "an answer comes with the destination that the responder was told",
        (
            "- b MESSAGE correlation-id:7 destination:/queue/amq.gen-* message-id:* redelivered:false subscription:/temp-queue/foo | answer",
            "+ b MESSAGE correlation-id:7 destination:/reply-queue/* message-id:* redelivered:false subscription:/temp-queue/foo | answer",
        ),
    ),
    "SUBSCRIBE without id": Difference(
        "STOMP 1.1 and 1.2 need one",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:Missing header",
        ),
    ),
    "SUBSCRIBE twice with one id": Difference(
        "a refused SUBSCRIBE has no RECEIPT",
        ("- a RECEIPT receipt-id:t",),
    ),
    "UNSUBSCRIBE without id": Difference(
        "every header that is missing is called `Missing header`; the body names it",
        (
            "- a ERROR message:Missing destination or id",
            "+ a ERROR message:Missing header",
        ),
    ),
    "selector": Difference(
        "selectors work; RabbitMQ ignores them",
        ("- a MESSAGE destination:/queue/o.13 message-id:* redelivered:false subscription:1 x:2 | no",),
    ),
    "NACK comes again": Difference(
        "`delivery-count` is here as well",
        (
            "- a MESSAGE ack:* destination:/queue/o.16 message-id:* redelivered:true subscription:1 | body",
            "+ a MESSAGE ack:* delivery-count:2 destination:/queue/o.16 message-id:* redelivered:true subscription:1 | body",
        ),
    ),
    "ACK of an unknown message": Difference(
        "`Message not found` at once, as RabbitMQ says of a tag that is none; 3.10 sends a RECEIPT and then `precondition_failed`",
        (
            "+ a ERROR message:Message not found",
            "- a RECEIPT receipt-id:k",
            "- a ERROR message:precondition_failed",
        ),
    ),
    "BEGIN twice": Difference(
        "refused; RabbitMQ forgets the first one in silence",
        (
            "- a RECEIPT receipt-id:c",
            "+ a ERROR message:Transaction already begun: transaction:t is already open; COMMIT or ABORT it first",
        ),
    ),
    "BEGIN without a name": Difference(
        "every header that is missing is called `Missing header`; the body names it",
        (
            "- a ERROR message:Missing transaction",
            "+ a ERROR message:Missing header",
        ),
    ),
    "durable subscription without id": Difference(
        "every header that is missing is called `Missing header`; the body names it",
        (
            "- a ERROR message:Missing Header",
            "+ a ERROR message:Missing header",
        ),
    ),
    "a second CONNECT": Difference(
        "an ERROR says why; RabbitMQ closes without a word",
        (
            "- a closed",
            "+ a ERROR message:Already connected: a second CONNECT; open another connection instead",
        ),
    ),
}
ACTIVEMQ: Final[Mapping[str, Difference]] = {
    "unknown prefix": Difference(
        "refused; Classic makes a queue of it",
        (
            "- a RECEIPT receipt-id:r",
            "+ a ERROR message:*",
        ),
    ),
    "composite SEND": Difference(
        "the destination of a MESSAGE is as its sender wrote it; Classic has that in `original-destination`",
        (
            "- a MESSAGE destination:/queue/o.2a message-id:* original-destination:/queue/o.2a,topic://o.2b subscription:1 | body",
            "- a MESSAGE destination:/topic/o.2b message-id:* original-destination:/queue/o.2a,topic://o.2b subscription:2 | body",
            "+ a MESSAGE destination:/queue/o.2a,/topic/o.2b message-id:* subscription:1 | body",
            "+ a MESSAGE destination:/queue/o.2a,/topic/o.2b message-id:* subscription:2 | body",
        ),
    ),
    "wildcard of queues": Difference(
        "refused; consume from queues one by one",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:*",
        ),
    ),
    "virtual topic": Difference(
        "the destination of a MESSAGE is as its sender wrote it; Classic has that in `original-destination`",
        (
            "- a MESSAGE destination:/queue/Consumer.A.VirtualTopic.o6 message-id:* original-destination:/topic/VirtualTopic.o6 subscription:1 | body",
            "- a MESSAGE destination:/queue/Consumer.B.VirtualTopic.o6 message-id:* original-destination:/topic/VirtualTopic.o6 subscription:2 | body",
            "+ a MESSAGE destination:/topic/VirtualTopic.o6 message-id:* subscription:1 | body",
            "+ a MESSAGE destination:/topic/VirtualTopic.o6 message-id:* subscription:2 | body",
        ),
    ),
    "temporary queue and reply": Difference(
        "an answer comes with the destination that the responder was told",
        (
            "- b MESSAGE destination:/temp-queue/foo message-id:* subscription:t | answer",
            "+ b MESSAGE destination:/remote-temp-queue/* message-id:* subscription:t | answer",
        ),
    ),
    "SUBSCRIBE twice with one id": Difference(
        "refused, as STOMP says; Classic lets the second one replace the first",
        (
            "- a RECEIPT receipt-id:t",
            "+ a ERROR message:*",
        ),
    ),
    "SUBSCRIBE with an unknown ack": Difference(
        "refused; Classic takes it for auto",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:*",
        ),
    ),
    "properties": Difference(
        "`JMSXGroupID` is relayed, too",
        (
            "- a MESSAGE correlation-id:c destination:/queue/o.20 message-id:* persistent:true subscription:1 type:t | body",
            "+ a MESSAGE JMSXGroupID:g correlation-id:c destination:/queue/o.20 message-id:* persistent:true subscription:1 type:t | body",
        ),
    ),
    "scheduled delay": Difference(
        "the headers of a schedule are relayed as sent; there is no `scheduledJobId`",
        (
            "- a MESSAGE destination:/queue/o.21 message-id:* scheduledJobId:* subscription:1 | body",
            "+ a MESSAGE AMQ_SCHEDULED_DELAY:900 destination:/queue/o.21 message-id:* subscription:1 | body",
        ),
    ),
}
DIFFERENCES: Final[Mapping[str, Mapping[str, Difference]]] = {"rabbitmq": RABBITMQ, "activemq": ACTIVEMQ}


def differing(broker: str, theirs: Sequence[str], ours: Sequence[str]) -> tuple[str, ...]:
    """The lines in which they differ besides RULES."""
    seen = ["\n".join(each) for each in (theirs, ours)]
    for rule in RULES[broker]:
        seen = [re.sub(rule.pattern, rule.replacement, text) for text in seen]
    mine, other = (text.split("\n") for text in seen)
    return tuple([line for line in difflib.ndiff(mine, other) if line[0] in "+-"])
