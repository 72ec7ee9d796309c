"""Settings of addresses, of queues that exist from the start, and of diverts.

Rule: as settings.py: plain frozen dataclasses, nothing read from anywhere. Names follow Artemis', with underscores.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import setting


@dataclass(frozen=True, slots=True)
class AddressSettings:
    """What an address does; `match` patterns pick them (more in a later release)."""

    max_delivery_attempts: int = setting(
        10, "deliveries", "then to the dead letter address; -1: never", "Artemis' value", least=-1
    )
    redelivery_delay_ms: int = setting(0, "milliseconds", "wait before a NACKed message is delivered again")
    redelivery_multiplier: float = setting(1.0, "factor", "delay grows by this per attempt")
    max_redelivery_delay_ms: int = setting(0, "milliseconds", "upper bound of the delay; 0: 10 × redelivery_delay_ms")
    dead_letter_address: str = setting("DLQ", "address", "where messages go that cannot be delivered; empty: dropped")
    expiry_address: str = setting("", "address", "where expired messages go; empty: dropped")
    auto_create: bool = setting(True, "yes/no", "SEND and SUBSCRIBE create addresses and queues")
    auto_delete: bool = setting(True, "yes/no", "auto-created queues go when empty and unused")
    auto_delete_delay_ms: int = setting(0, "milliseconds", "how long they must have been unused")
    default_routing: str = setting(
        "ANYCAST", "ANYCAST|MULTICAST", "for destinations that do not say", "what people expect of a plain name"
    )
    partitions: int = setting(
        1,
        "slots",
        "that share the address; above 1 only messages with the same JMSXGroupID keep their order; may only grow",
        "one slot has one owner; a hot address can have several. Of fewer ones, the last would keep their messages",
        most=64,
    )
    auto_create_queues: bool = setting(
        True, "yes/no", "SEND and SUBSCRIBE create anycast and named queues; subscriptions to topics always get theirs"
    )
    routing_types: str = setting(
        "", "list", "routing types this address has, ANYCAST,MULTICAST or one of them; empty: whatever is asked for"
    )
    declared: bool = setting(
        False, "yes/no", "the address exists without queues and is never deleted on demand (exact names only)"
    )
    paused: bool = setting(False, "yes/no", "messages are taken but not delivered")
    nack_policy: str = setting(
        "redeliver", "redeliver|discard", "what a NACK does; discard: as Artemis does, the message is gone"
    )
    durable_conflict: str = setting(
        "error",
        "error|replace",
        "a durable subscription comes back with another selector: refuse it, or take the new selector",
        "Artemis keeps the old one in silence",
    )
    redelivery_jitter: float = setting(
        0.0, "fraction", "delays differ by up to this part of them, so that failures do not come back together"
    )
    send_to_dla_on_no_route: bool = setting(
        False, "yes/no", "a message that no queue wants goes to the dead letter address instead of nowhere"
    )
    auto_create_dead_letter_resources: bool = setting(
        False, "yes/no", "dead letters of each address get a queue of their own at the dead letter address"
    )
    dead_letter_queue_prefix: str = setting("DLQ.", "text", "before the address in the name of such a queue")
    dead_letter_queue_suffix: str = setting("", "text", "behind the address in the name of such a queue")
    auto_create_expiry_resources: bool = setting(
        False, "yes/no", "expired messages of each address get a queue of their own at the expiry address"
    )
    expiry_queue_prefix: str = setting("EXP.", "text", "before the address in the name of such a queue")
    expiry_queue_suffix: str = setting("", "text", "behind the address in the name of such a queue")
    no_expiry: bool = setting(False, "yes/no", "messages never expire, whatever their sender said")
    expiry_delay_ms: int = setting(
        -1, "milliseconds", "life of messages whose sender gave no expiry; -1: for ever", least=-1
    )
    min_expiry_delay_ms: int = setting(-1, "milliseconds", "shortest life; -1: as the sender says", least=-1)
    max_expiry_delay_ms: int = setting(
        -1, "milliseconds", "longest life, also of messages without expiry; -1: as the sender says", least=-1
    )
    full_policy: str = setting(
        "PAGE",
        "PAGE|BLOCK|FAIL|DROP|DEAD_LETTER",
        "at max_size_*: keep on disk, let producers wait, refuse, drop in silence, or send to the dead letter address",
        "PAGE needs no limit: what does not fit into memory is read back from the journal",
    )
    max_size_bytes: int = setting(-1, "bytes", "in all queues of the address together; -1: unlimited", least=-1)
    max_size_messages: int = setting(-1, "messages", "in all queues of the address together; -1: unlimited", least=-1)
    reject_threshold_bytes: int = setting(
        -1, "bytes", "with BLOCK: above it SEND is refused; -1: never", "producers that do not wait", least=-1
    )
    page_limit_bytes: int = setting(-1, "bytes", "with PAGE: of the address on disk; -1: unlimited", least=-1)
    page_limit_messages: int = setting(-1, "messages", "with PAGE: of the address; -1: unlimited", least=-1)
    page_full_policy: str = setting("FAIL", "FAIL|DROP", "at page_limit_*: refuse, or drop in silence")
    last_value: bool = setting(
        False, "yes/no", "queues keep only the newest message of each key (header _AMQ_LVQ_NAME)"
    )
    last_value_key: str = setting("", "header", "the key's header, if it is another one; turns last_value on")
    non_destructive: bool = setting(
        False, "yes/no", "consuming does not remove: every consumer sees all; needs expiry, ring_size or last_value"
    )
    exclusive: bool = setting(False, "yes/no", "one consumer at a time; the next takes over when it goes")
    ring_size: int = setting(-1, "messages", "queues keep only so many of the newest; -1: all", least=-1)
    ring_bytes: int = setting(-1, "bytes", "queues keep only so much of the newest; -1: all", least=-1)
    ring_dead_letters: bool = setting(
        False, "yes/no", "what a queue does not keep for ring_size or ring_bytes goes to the dead letter address"
    )
    max_consumers: int = setting(-1, "consumers", "of a queue; -1: unlimited", least=-1)
    purge_on_no_consumers: bool = setting(False, "yes/no", "queues are emptied when their last consumer goes")
    consumers_before_dispatch: int = setting(0, "consumers", "must be there before a queue starts to deliver", least=0)
    delay_before_dispatch_ms: int = setting(
        -1, "milliseconds", "after the first consumer it starts all the same; -1: waits for all of them", least=-1
    )
    group_buckets: int = setting(
        -1,
        "buckets",
        "JMSXGroupID values are kept one by one (-1), hashed into so many, or ignored (0)",
        least=-1,
    )
    group_rebalance: bool = setting(False, "yes/no", "groups are dealt out anew when a consumer comes")
    group_rebalance_pause: bool = setting(
        False, "yes/no", "and only when all that is under way is acknowledged, so that order is kept"
    )
    group_first_key: str = setting("", "header", "set to true on the first message a consumer gets of a group")
    retroactive_messages: int = setting(0, "messages", "kept for queues that will be made later", least=0)
    retroactive_bytes: int = setting(-1, "bytes", "of them only so much of the newest; -1: all", least=-1)
    retroactive_ms: int = setting(-1, "milliseconds", "of them only those that came since; -1: all", least=-1)
    slow_consumer_threshold: int = setting(
        -1, "messages per slow_consumer_unit", "who takes fewer while messages wait is slow; -1: nobody is", least=-1
    )
    slow_consumer_unit: str = setting("SECOND", "SECOND|MINUTE|HOUR|DAY", "unit of slow_consumer_threshold")
    slow_consumer_policy: str = setting("NOTIFY", "NOTIFY|KILL", "log and count, or end the consumer")
    slow_consumer_check_period_s: int = setting(5, "seconds", "how long rates are measured", least=1)
    id_cache_size: int = setting(
        20_000, "ids", "duplicate ids (_AMQ_DUPL_ID) remembered; 0: duplicates are not looked for", least=0
    )
    ingress_timestamp: bool = setting(
        False, "yes/no", "MESSAGE frames say when the broker took the message (header ingress-timestamp)"
    )
    record_deliveries: bool = setting(
        False,
        "yes/no",
        "the log tells when durable messages were handed out, and to which consumer (event DELIVERED of the read API)",
        "a record more for each turn that hands out, on every replica",
    )
    message_advisories: str = setting(
        "",
        "list",
        "advisories of single messages (Classic): MessageDLQd, Expired, MessageDiscarded, NoConsumer; empty: none",
        "a message more for each that is told of",
    )
    consumer_window_bytes: int = setting(
        -2,
        "bytes",
        "default window of client modes; -1: unlimited, -2: the acceptor's",
        least=-2,
    )
    auto_delete_message_count: int = setting(
        0, "messages", "with so many or fewer left a queue counts as empty; -1: any number", least=-1
    )


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue that exists from the start, and is never deleted on demand. What is not said here is its address's."""

    address: str = setting("", "address", "whose queue it is; empty: the address of the same name")
    routing: str = setting("ANYCAST", "ANYCAST|MULTICAST", "MULTICAST with a name CLIENT.NAME: a durable subscription")
    selector: str = setting("", "selector", "only matching messages enter; empty: all")
    last_value: bool = setting(False, "yes/no", "as for addresses")
    last_value_key: str = setting("", "header", "as for addresses")
    non_destructive: bool = setting(False, "yes/no", "as for addresses")
    exclusive: bool = setting(False, "yes/no", "as for addresses")
    ring_size: int = setting(-1, "messages", "as for addresses", least=-1)
    ring_bytes: int = setting(-1, "bytes", "as for addresses", least=-1)
    ring_dead_letters: bool = setting(False, "yes/no", "as for addresses")
    max_consumers: int = setting(-1, "consumers", "as for addresses", least=-1)
    purge_on_no_consumers: bool = setting(False, "yes/no", "as for addresses")
    consumers_before_dispatch: int = setting(0, "consumers", "as for addresses", least=0)
    delay_before_dispatch_ms: int = setting(-1, "milliseconds", "as for addresses", least=-1)
    group_buckets: int = setting(-1, "buckets", "as for addresses", least=-1)
    group_rebalance: bool = setting(False, "yes/no", "as for addresses")
    group_rebalance_pause: bool = setting(False, "yes/no", "as for addresses")
    group_first_key: str = setting("", "header", "as for addresses")
    paused: bool = setting(False, "yes/no", "as for addresses")


@dataclass(frozen=True, slots=True)
class DivertSettings:
    """Messages sent to one address go to another one as well, or instead."""

    address: str = setting("", "address", "where they were sent")
    forward: str = setting("", "list", "comma list of addresses that get a copy")
    exclusive: bool = setting(False, "yes/no", "they get it instead: nothing stays at the first address")
    selector: str = setting("", "selector", "only matching messages; empty: all")
    routing: str = setting(
        "STRIP", "STRIP|PASS|ANYCAST|MULTICAST", "routing type at the other address: none, the sender's, or this one"
    )
