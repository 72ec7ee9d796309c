"""Queues of their own for the dead letters, and for the expired messages, of each address.

They stand at the dead letter (expiry) address beside others of their kind, so each of them takes only what says that it
was last at its address: what names no queue, of addresses without such queues, goes past them. A letter that makes one
and a consumer that waits for letters make the same. An address that has only such queues is to everybody else
like one that has none.

Rule: names and filters are functions of settings alone. Must not know messages.
"""

# Example. Settings of `#`: dead_letter_address DLA, auto_create_dead_letter_resources, prefix "DLQ.". A message of
# orders fails:
#     name      DLQ.orders, a multicast queue at DLA
#     filter    _AMQ_ORIG_ADDRESS = 'orders': of all that comes to DLA it takes its own
# Somebody subscribes to DLA::DLQ.orders before the first letter: filter_of() finds out from the name alone that it is
# such a queue, and makes the same one. Else the letters of all addresses would fill it.

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.config.addressing import AddressSettings
from broker.core.virtual_host import split

if TYPE_CHECKING:
    from ..state.slot import Slot
    from ..state.slot_address import Address

_START: Final = "_AMQ_ORIG_ADDRESS = '"


def dead_letter_queue(settings: AddressSettings, address: str) -> str | None:
    """Name of the queue for dead letters of the address; None: it has none of its own."""
    if not settings.auto_create_dead_letter_resources:
        return None
    return _named(settings.dead_letter_queue_prefix, address, settings.dead_letter_queue_suffix)


def expiry_queue(settings: AddressSettings, address: str) -> str | None:
    """The same for expired messages."""
    if not settings.auto_create_expiry_resources:
        return None
    return _named(settings.expiry_queue_prefix, address, settings.expiry_queue_suffix)


def _named(prefix: str, address: str, suffix: str) -> str:
    """Of an address in a virtual host it is one of that host."""
    root, local = _root(address), split(address).local
    if root and local.startswith("$"):
        root += "/"  # what the host's clients may name
    return f"{root}{prefix}{local}{suffix}"


def _root(name: str) -> str:
    """What stands in front of the name that clients use, `$host/shop.` or nothing."""
    return name[: len(name) - len(split(name).local)]


def filter_of(slot: Slot, address: str, queue: str) -> str | None:
    """Selector of the queue of that name at that address, if the settings say that it is one of these."""
    match = slot.match
    origins: set[str] = set()
    for kind in ("dead_letter", "expiry"):
        if True not in match.values(f"auto_create_{kind}_resources"):
            continue
        # From the name back to the address, by every prefix and suffix that any settings have: a handful, times two.
        # Whether it was the right one says the last question: do the settings of that address name this very queue.
        for prefix in match.values(f"{kind}_queue_prefix"):
            for suffix in match.values(f"{kind}_queue_suffix"):
                root = _root(queue)
                local = queue[len(root) + len(prefix) : len(queue) - len(suffix)]
                origin = (root[:-1] if root and local.startswith("$") else root) + local
                if local and (address, queue) in _own(match(origin), origin):
                    origins.add(origin)
    quoted = [origin.replace("'", "''") for origin in sorted(origins)]
    return " OR ".join([f"{_START}{origin}'" for origin in quoted]) or None


def _own(settings: AddressSettings, origin: str) -> list[tuple[str, str | None]]:
    return [
        (settings.dead_letter_address, dead_letter_queue(settings, origin)),
        (settings.expiry_address, expiry_queue(settings, origin)),
    ]


def only(address: Address) -> bool:
    """Has the address no queues but such ones."""
    return not address.anycast and all(
        [queue.auto_created and (queue.selector or "").startswith(_START) for queue in address.multicast]
    )
