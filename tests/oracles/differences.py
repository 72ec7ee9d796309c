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
    "artemis": (
        ENDS,
        NAMES_RECEIPT,
        General("the words of an ERROR are ours", r"(?m)^(\w+ ERROR message:).*$", r"\1*"),
        General(
            "a MESSAGE has the headers of its sender; Artemis adds `destination-type`, `persistent:false` and "
            "`redelivered:false`, and hands on receipt and transaction",
            r" (destination-type:\S+|persistent:false|redelivered:false|receipt:\S+|transaction:\S+)(?=.* \| )",
        ),
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
    "exchange that is not there": Difference(
        "a refused SUBSCRIBE has no RECEIPT; RabbitMQ sends it, and then the ERROR",
        ("- a RECEIPT receipt-id:s",),
    ),
    "amq queue that is not there": Difference(
        "a refused SUBSCRIBE has no RECEIPT",
        ("- a RECEIPT receipt-id:s",),
    ),
    "SUBSCRIBE with the id of a temporary queue": Difference(
        "says what is wrong with the id, as 3.10 does of UNSUBSCRIBE; of a SUBSCRIBE it says `Processing error`",
        (
            "- a ERROR message:Processing error",
            "+ a ERROR message:Invalid id",
        ),
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
        "STOMP 1.1 and 1.2 need one (`subscribe_without_id` of the acceptor lets it in)",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:Missing header",
        ),
    ),
    "SUBSCRIBE twice with one id": Difference(
        "a refused SUBSCRIBE has no RECEIPT",
        ("- a RECEIPT receipt-id:t",),
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
    "NACK in 1.0": Difference(
        "STOMP 1.0 has no NACK (`nack_v10` of the acceptor lets it in)",
        (
            "+ a ERROR message:Bad command",
            "- a RECEIPT receipt-id:n",
            "- a MESSAGE destination:/queue/o.30 message-id:* redelivered:true subscription:1 | body",
        ),
    ),
    "a queue that is to go with its consumer": Difference(
        "let in when the settings of the address say the same, else refused with the line to write",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:Invalid header",
        ),
    ),
    "a queue that is not durable": Difference(
        "`durable:false` alone is refused: RabbitMQ deletes such a queue with its connection",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:Invalid header",
        ),
    ),
    "SEND to a queue that is to go": Difference(
        "let in when the settings of the address say the same, else refused with the line to write",
        (
            "- a RECEIPT receipt-id:r",
            "+ a ERROR message:Invalid header",
        ),
    ),
    "arguments of a queue": Difference(
        "let in when the settings of the address say the same, else refused with the line to write",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:Invalid header",
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
        "`original-destination` is as its sender wrote it; Classic writes the second and all others as `topic://o.2b`",
        (
            "- a MESSAGE destination:/queue/o.2a message-id:* original-destination:/queue/o.2a,topic://o.2b subscription:1 | body",
            "+ a MESSAGE destination:/queue/o.2a message-id:* original-destination:/queue/o.2a,/topic/o.2b subscription:1 | body",
            "- a MESSAGE destination:/topic/o.2b message-id:* original-destination:/queue/o.2a,topic://o.2b subscription:2 | body",
            "+ a MESSAGE destination:/topic/o.2b message-id:* original-destination:/queue/o.2a,/topic/o.2b subscription:2 | body",
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
    "bare name": Difference(
        "the destination of a MESSAGE is as its sender wrote it",
        (
            "- a MESSAGE destination:/queue/o.23 message-id:* subscription:1 | body",
            "+ a MESSAGE destination:o.23 message-id:* subscription:1 | body",
        ),
    ),
    "composite SEND of bare names, in a transaction": Difference(
        "`original-destination` is as its sender wrote it",
        (
            "- a MESSAGE destination:/queue/o.24a message-id:* original-destination:/queue/o.24a,queue://o.24b subscription:1 | body",
            "+ a MESSAGE destination:/queue/o.24a message-id:* original-destination:o.24a,o.24b subscription:1 | body",
            "- a MESSAGE destination:/queue/o.24b message-id:* original-destination:/queue/o.24a,queue://o.24b subscription:2 | body",
            "+ a MESSAGE destination:/queue/o.24b message-id:* original-destination:o.24a,o.24b subscription:2 | body",
        ),
    ),
    "prefetch of nothing": Difference(
        "`activemq.prefetchSize:0` is 1; Classic delivers nothing then",
        ("+ a MESSAGE ack:* destination:/queue/o.27 message-id:* subscription:1 | body",),
    ),
    "wildcard of queues, with messages": Difference(
        "what waits in a queue comes at once; 5.17 gives it with the next message of any queue of the wildcard",
        (
            "+ a MESSAGE destination:/queue/o.38.a message-id:* subscription:1 | one",
            "- a MESSAGE destination:/queue/o.38.a message-id:* subscription:1 | one",
        ),
    ),
    "scheduled delay": Difference(
        "the header of a delay is relayed as sent; without a period or cron there is no `scheduledJobId`",
        (
            "- a MESSAGE destination:/queue/o.21 message-id:* scheduledJobId:* subscription:1 | body",
            "+ a MESSAGE AMQ_SCHEDULED_DELAY:900 destination:/queue/o.21 message-id:* subscription:1 | body",
        ),
    ),
    "scheduler: browse and remove": Difference(
        "BROWSE is answered, as Classic's own documentation has it; 5.17 sends a STOMP client nothing",
        (
            "+ a MESSAGE AMQ_SCHEDULED_DELAY:3600000 AMQ_SCHEDULED_PERIOD:1000 AMQ_SCHEDULED_REPEAT:3 AMQ_SCHEDULED_TIME:* colour:blue destination:/temp-queue/jobs message-id:* original-destination:/queue/o.28 scheduledJobId:* subscription:t | body",
        ),
    ),
    "scheduler: cron": Difference(
        "BROWSE is answered, as Classic's own documentation has it; 5.17 sends a STOMP client nothing",
        (
            "+ a MESSAGE AMQ_SCHEDULED_CRON:0 9 1 1 * AMQ_SCHEDULED_TIME:* destination:/temp-queue/jobs message-id:* original-destination:/queue/o.30 scheduledJobId:* subscription:t | body",
        ),
    ),
    "retroactive": Difference(
        "let in when the settings of the address say the same, else refused with the line to write",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:*",
        ),
    ),
    "exclusive": Difference(
        "let in when the settings of the address say the same, else refused with the line to write",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:*",
        ),
    ),
    "a group that is closed": Difference(
        "`JMSXGroupID` and `JMSXGroupSeq` are relayed, too",
        (
            "- a MESSAGE destination:/queue/o.42 message-id:* subscription:1 | body",
            "+ a MESSAGE JMSXGroupID:g JMSXGroupSeq:-1 destination:/queue/o.42 message-id:* subscription:1 | body",
        ),
    ),
}
ARTEMIS: Final[Mapping[str, Difference]] = {
    "connect 1.0": Difference(
        "CONNECTED names the version to a client of 1.0, too",
        (
            "- a CONNECTED version:-",
            "+ a CONNECTED version:1.0",
        ),
    ),
    "FQQN": Difference(
        "a queue that is named behind a topic with its prefix gets its messages; Artemis makes one that gets none",
        ("+ a MESSAGE destination:/topic/o.4 message-id:* subscription:1 | body",),
    ),
    "SUBSCRIBE without id": Difference(
        "STOMP 1.1 and 1.2 need one (`subscribe_without_id` of the acceptor lets it in)",
        (
            "- a RECEIPT receipt-id:s",
            "+ a ERROR message:*",
        ),
    ),
    "browser": Difference(
        "a browser is told when it has seen everything (`browser:end`)",
        ("+ a MESSAGE browser:end destination:/queue/o.12 message-id:* subscription:1",),
    ),
    "NACK": Difference(
        "it comes again (`max_delivery_attempts`); Artemis drops the message",
        (
            "+ a MESSAGE ack:* delivery-count:2 destination:/queue/o.16 message-id:* redelivered:true subscription:1 | body",
        ),
    ),
    "properties": Difference(
        "`JMSXGroupID` is relayed as it was sent; Artemis writes `_AMQ_GROUP_ID`",
        (
            "- a MESSAGE _AMQ_GROUP_ID:g correlation-id:c destination:/queue/o.19 message-id:* persistent:true subscription:1 type:t | body",
            "+ a MESSAGE JMSXGroupID:g correlation-id:c destination:/queue/o.19 message-id:* persistent:true subscription:1 type:t | body",
        ),
    ),
    "scheduled delay": Difference(
        "the header of a delay is relayed as sent",
        (
            "- a MESSAGE _AMQ_SCHED_DELIVERY:* destination:/queue/o.22 message-id:* subscription:1 | body",
            "+ a MESSAGE AMQ_SCHEDULED_DELAY:900 destination:/queue/o.22 message-id:* subscription:1 | body",
        ),
    ),
    "management: a count": Difference(
        "an answer has no `reply-to`",
        (
            "- a MESSAGE _AMQ_OperationSucceeded:true destination:o.24.answers message-id:* reply-to:* subscription:1 | [1]",
            "+ a MESSAGE _AMQ_OperationSucceeded:true destination:o.24.answers message-id:* subscription:1 | [1]",
        ),
    ),
    "management: an operation": Difference(
        "an answer has no `reply-to`",
        (
            "- a MESSAGE _AMQ_OperationSucceeded:true destination:o.25.answers message-id:* reply-to:* subscription:1 | [1]",
            "+ a MESSAGE _AMQ_OperationSucceeded:true destination:o.25.answers message-id:* subscription:1 | [1]",
        ),
    ),
    "management: what is not there": Difference(
        "the reason is ours, and an answer has no `reply-to`",
        (
            '- a MESSAGE _AMQ_OperationSucceeded:false destination:o.26.answers message-id:* reply-to:* subscription:1 | ["Problem while retrieving attribute messageCount"]',
            "+ a MESSAGE _AMQ_OperationSucceeded:false destination:o.26.answers message-id:* subscription:1 | [\"there is no queue 'none.26'; GET queues?q=… finds names; a queue of another name than its address is ADDRESS::NAME\"]",
        ),
    ),
    "a second CONNECT": Difference(
        "refused; Artemis logs in once more",
        (
            "- a CONNECTED version:1.2",
            "+ a ERROR message:*",
        ),
    ),
    "NACK in 1.0": Difference(
        "CONNECTED names the version to a client of 1.0, too",
        (
            "- a CONNECTED version:-",
            "+ a CONNECTED version:1.0",
        ),
    ),
}
DIFFERENCES: Final[Mapping[str, Mapping[str, Difference]]] = {
    "rabbitmq": RABBITMQ, "activemq": ACTIVEMQ, "artemis": ARTEMIS,
}  # fmt: skip


def differing(broker: str, theirs: Sequence[str], ours: Sequence[str]) -> tuple[str, ...]:
    """The lines in which they differ besides RULES."""
    seen = ["\n".join(each) for each in (theirs, ours)]
    for rule in RULES[broker]:
        seen = [re.sub(rule.pattern, rule.replacement, text) for text in seen]
    mine, other = (text.split("\n") for text in seen)
    return tuple([line for line in difflib.ndiff(mine, other) if line[0] in "+-"])
