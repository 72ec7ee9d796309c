"""Which resources may speak about an address: what `spec.addressOwners` of a StompBroker says of resources by their
names.

    addressOwners:
      - {prefix: orders, resources: [shop-*]}     # orders and orders.# are shop's, whatever else writes an Address
      - {prefix: "", resources: [platform-*]}     # and platform's, as everything is

An Address speaks about its name or pattern, about the names of its queues and diverts (a broker has one of each name,
wherever it is), and about where diverts, dead letters and expired messages go. What no prefix is about is for all
resources; but permissions of one queue (`name: ADDRESS::QUEUE`) decide alone, whatever the address says, so they take
an owner of the address.

Rule: pure. A resource that owns a prefix owns all below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..spec.model import AddressOwner, AddressSpec

FQQN = "::"


def not_owner(name: str, spec: AddressSpec, owners: Sequence[AddressOwner]) -> str:
    """Why an Address of this name may not say that, "": it may."""
    own = spec.name or spec.match
    if FQQN in own and not _owns(name, own, owners):
        return (
            f"{own} is a queue, whose permissions would decide instead of those of {_address(own)}: that takes an "
            f"owner of {_address(own)}; add one to spec.addressOwners of the StompBroker ({{prefix: {_address(own)}, "
            f"resources: [{name}]}}), or state permissions of the address"
        )
    for what, spoken in _spoken(spec):
        if (owner := _another(name, spoken, owners)) is not None:
            return (
                f"{what} {spoken}".strip()
                + f" belongs to {', '.join(owner.resources)} (spec.addressOwners of the StompBroker, "
                f"prefix {owner.prefix!r}), and this Address is called {name}"
            )
    return ""


def is_anothers(name: str, about: str, owners: Sequence[AddressOwner]) -> bool:
    """May an Address of this name never have a key about that, whatever else it says."""
    return (FQQN in about and not _owns(name, about, owners)) or _another(name, _address(about), owners) is not None


def only_a_queue(spec: AddressSpec) -> str:
    """Why what stands beside the permissions of a queue is refused, "": nothing does."""
    if FQQN not in (spec.name or spec.match):
        return ""
    address, _, queue = spec.name.partition(FQQN)
    if not (address and queue) or FQQN in queue:
        return f"{spec.name or spec.match} must be an address, or ADDRESS::QUEUE to state permissions of one queue"
    if spec.permissions is None or spec.settings or spec.queues or spec.diverts:
        return f"{spec.name} is a queue: only spec.permissions can stand there; the rest belongs to Address {address}"
    return ""


def _spoken(spec: AddressSpec) -> Iterator[tuple[str, str]]:
    """What it speaks about: in words, and the address or pattern."""
    yield "", _address(spec.name or spec.match)
    for queue in spec.queues:
        yield "queue", _address(str(queue["name"]))
    for divert in spec.diverts:
        yield "divert", _address(str(divert["name"]))
        for to in divert.get("forward") or ():
            yield f"divert {divert['name']} forwards to", _address(str(to))
    for setting in ("deadLetterAddress", "expiryAddress"):
        if to := spec.settings.get(setting):
            yield f"settings.{setting}", _address(str(to))


def _owns(name: str, spoken: str, owners: Iterable[AddressOwner]) -> bool:
    words = _address(spoken).split(".")
    return any(_covers(owner.prefix, words) and _named(name, owner) for owner in owners)


def _another(name: str, spoken: str, owners: Sequence[AddressOwner]) -> AddressOwner | None:
    """Whose it is if it is another's."""
    words = spoken.split(".")
    concerned = [owner for owner in owners if owner.prefix and _overlaps(owner.prefix, words)]
    if not concerned or _owns(name, spoken, owners):
        return None
    return max(concerned, key=lambda owner: len(owner.prefix))


def _named(name: str, owner: AddressOwner) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in owner.resources)


def _covers(prefix: str, words: list[str]) -> bool:
    """All of it is below the prefix."""
    wanted = prefix.split(".") if prefix else []
    return words[: len(wanted)] == wanted


def _overlaps(prefix: str, words: list[str]) -> bool:
    """Some of it is."""
    for at, word in enumerate(prefix.split(".")):
        if at == len(words):
            return False
        if words[at] == "#":
            return True
        if words[at] not in ("*", word):
            return False
    return True


def _address(name: str) -> str:
    return name.partition(FQQN)[0]
