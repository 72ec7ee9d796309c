"""A backup of a whole cluster: a folder with what etcd knew, a tar file of each owner, and that all of it is there.

    2026-11-27T02-00-00Z/metadata.json        first: who had which slot before any owner was copied
    2026-11-27T02-00-00Z/stomp-owner-0.tar    one after the other (`stampede backup`)
    2026-11-27T02-00-00Z/complete.json        last

Rule: only what has the statement is a backup. What is taken away loses its statement first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from broker.core.errors import JournalError

from .places import CopyPlace, put, whole

METADATA: Final = "metadata.json"
COMPLETE: Final = "complete.json"
_FORMAT: Final = 1


class Complete(msgspec.Struct, frozen=True, rename="camel"):
    """owners: name → bytes of its tar file, in order. taken_ms: everything receipted before is in it."""

    taken_ms: int
    owners: dict[str, int]
    format: int = _FORMAT

    @property
    def nbytes(self) -> int:
        return sum(self.owners.values())


def tar_of(owner: str) -> str:
    return f"{owner}.tar"


def read_json(place: CopyPlace, name: str) -> dict[str, Any]:
    """Raises FileNotFoundError, JournalError."""
    try:
        found = msgspec.json.decode(whole(place, name))
    except msgspec.DecodeError as error:
        raise JournalError(f"{name} is damaged: {error}") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise JournalError(f"{name}: this release reads format {_FORMAT}; use a matching release")
    return found


def complete(place: CopyPlace) -> Complete:
    """States that all owners are there. Raises JournalError when one is not."""
    try:
        metadata = read_json(place, METADATA)
    except FileNotFoundError:
        raise JournalError(f"there is no {METADATA}: begin with `stampede cluster backup`") from None
    sizes = place.sizes()
    missing = [owner for owner in metadata["owners"] if tar_of(owner) not in sizes]
    if missing:
        raise JournalError(f"the backup is not complete: there is no {', '.join(map(tar_of, missing[:5]))}")
    made = Complete(metadata["takenMs"], {owner: sizes[tar_of(owner)] for owner in metadata["owners"]})
    if COMPLETE not in sizes:
        put(place, COMPLETE, msgspec.json.encode(made))
    return made


def completed(place: CopyPlace) -> Complete:
    """Raises JournalError for one that is not whole."""
    try:
        found = msgspec.convert(read_json(place, COMPLETE), Complete)
    except FileNotFoundError:
        raise JournalError(f"the backup is not complete: there is no {COMPLETE}") from None
    except msgspec.ValidationError as error:
        raise JournalError(f"{COMPLETE} is damaged: {error}") from None
    sizes = place.sizes()
    for owner, size in found.owners.items():
        if sizes.get(tar_of(owner)) != size:
            raise JournalError(
                f"the backup is damaged: {tar_of(owner)} has {sizes.get(tar_of(owner))} bytes, not {size}"
            )
    return found


def runs(place: CopyPlace) -> list[str]:
    """Names of the complete backups in a folder of them, the oldest first: names are times. What folders inside these
    hold is another series (a StompBackup's, in the same bucket)."""
    return sorted(run for run, _, file in map(_parted, place.sizes()) if file == COMPLETE)


def prune(place: CopyPlace, keep: int) -> list[str]:
    """Takes away all but the newest `keep` complete ones, and what older runs left behind that never became complete.
    Their names."""
    kept = runs(place)[-keep:]
    sizes = place.sizes()
    found = sorted({run for run, _, file in map(_parted, sizes) if file in (METADATA, COMPLETE)})
    gone = [run for run in found if kept and run < kept[-1] and run not in kept and _ours(place, run)]
    _remove(place, gone, sizes)
    return gone


def drop_incomplete(place: CopyPlace, before: str) -> list[str]:
    """Takes away what runs before that one left behind that did not become complete. Their names. A series that fails
    again and again would else fill its volume, and could never become complete again."""
    sizes = place.sizes()
    begun = {run for run, _, file in map(_parted, sizes) if file == METADATA}
    gone = sorted(run for run in begun - set(runs(place)) if run < before and _ours(place, run))
    _remove(place, gone, sizes)
    return gone


def _remove(place: CopyPlace, gone: Collection[str], sizes: Collection[str]) -> None:
    for run in gone:
        names = [name for name in sizes if name.startswith(f"{run}/")]
        # What makes it known goes last: whoever is killed meanwhile goes on with it the next time.
        for name in sorted(names, key=lambda name: (name != f"{run}/{COMPLETE}", name == f"{run}/{METADATA}")):
            place.remove(name)


def _parted(name: str) -> tuple[str, str, str]:
    return name.partition("/")


def _ours(place: CopyPlace, run: str) -> bool:
    """Others may have a metadata.json in a folder of the same bucket, too."""
    try:
        return {"takenMs", "owners"} <= read_json(place, f"{run}/{METADATA}").keys()
    except (FileNotFoundError, JournalError):
        return False
