"""What owners themselves say they serve, for `stampede cluster status`: the slot table only says what shall be.

Rule: every owner is asked at once, on its admin port, and none is waited for longer than TIMEOUT_S. Who does not answer
is not taken for one that serves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from broker.admin.scrape_token import answer_of
from broker.cluster.operate import Picture
from broker.core.slots import Member

TIMEOUT_S: Final = 3.0
AT_ONCE: Final = 32
UNAWARE: Final = "serves none and has no reason: it may not have heard that it leads them"
"""Of an owner that follows the slot table no more, or not yet. What it does not know of it cannot name."""


class Unserved(NamedTuple):
    """A slot that nobody serves. leader: who should, "" = nobody. since_s: None = only that owner could say."""

    slot: int
    leader: str
    why: str
    since_s: float | None


class ServedSlots(NamedTuple):
    """serves: owner → how many slots it serves, None = it did not say. unserved: by slot; of an owner that did not say
    nothing is known."""

    serves: dict[str, int | None]
    unserved: list[Unserved]


def serving(picture: Picture, headers: Mapping[str, str]) -> ServedSlots:
    """Asks all owners. headers: what they are to be shown (admin.token_file)."""
    owners = picture.view.owners
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(owners, pool.map(lambda owner: _ask(owner, headers), owners.values()), strict=True))
    unserved = []
    for slot, record in sorted(picture.view.records.items()):
        if record.shelved:
            continue
        if not picture.view.led(record):
            why = f"{record.leader} is not registered" if record.leader else "no in-sync replica lives"
            unserved.append(Unserved(slot, record.leader, why, None))
        elif (answer := answers[record.leader]) and (found := answer["not_served"].get(str(slot))):
            unserved.append(Unserved(slot, record.leader, found["why"], found["since_s"]))
        elif answer and not answer["serves"]:
            unserved.append(Unserved(slot, record.leader, f"{record.leader} {UNAWARE}", None))
    serves = {one: None if answer is None else int(answer["serves"]) for one, answer in answers.items()}
    return ServedSlots(serves, unserved)


def lines(unserved: Iterable[Unserved]) -> list[str]:
    """One for all slots that have the same reason."""
    groups: dict[tuple[str, str], list[Unserved]] = defaultdict(list)
    for one in unserved:
        groups[one.leader, one.why].append(one)
    found = []
    for (leader, why), some in groups.items():
        since = max((one.since_s for one in some if one.since_s is not None), default=None)
        slots = ", ".join(str(one.slot) for one in some[:8]) + (", …" if len(some) > 8 else "")
        count = "1 slot" if len(some) == 1 else f"{len(some)} slots"
        if since is None:
            found.append(f"Not served: {count} ({slots}): {why}")
        else:
            found.append(f"Not served for {since:.0f} s: {count} ({slots}): {leader} {why}")
    return found


def _ask(owner: Member, headers: Mapping[str, str]) -> dict[str, Any] | None:
    """None: it does not say (no admin port, an older release, no answer in time)."""
    if not owner.admin:
        return None
    try:
        return answer_of(f"http://{owner.admin}/api/slots", headers, TIMEOUT_S)
    except (OSError, ValueError):
        return None
