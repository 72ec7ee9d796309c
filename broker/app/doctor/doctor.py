"""What `stampede doctor` looks at on this machine: files and their rights, disk, clock, limits, certificates.

Rule: every finding says what was found and what to do about it; nothing is changed or mended. Nothing is stopped by a
check that cannot be made: that is a finding, too. Must not know terminals; the cluster is doctor_cluster.py's.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker.config.permissions import FQQN
from broker.config.ports import all_acceptors
from broker.config.settings import MemorySettings, Settings
from broker.core.certificates import first_certificate, not_after
from broker.core.errors import BrokerError
from broker.edge.access.users import load_users
from broker.edge.rights.permissions import Permissions, Rights
from broker.engine.address.address_settings import Matcher
from broker.engine.routing.dead_letter_queues import dead_letter_queue, expiry_queue
from broker.seams.clock import SystemClock
from broker.seams.files import File, OsFiles, fingerprint, mode, read_whole, temporary_file

from ..process.process import SPARE_FILES

FINE, WARNING, FAULT = "fine", "warning", "fault"
DAY_S: Final = 86_400
SOON_S: Final = 30 * DAY_S
"""A certificate that ends within it is worth a warning."""
AHEAD_S: Final = 5.0
"""A file may be so much younger than now before the clock is said to have gone back."""
SYNCS: Final = 32
SYNCS_FOR_S: Final = 2.0
"""The disk is asked for SYNCS syncs of BLOCK bytes, or for as many as it does in this time."""
BLOCK: Final = 16 * 1024
SLOW_S: Final = 0.02
"""Median of one sync. A receipt of a durable message waits for one."""
HANG_S: Final = 0.5
SMALL: Final = 512 * 1024 * 1024


class Finding(NamedTuple):
    """check: what was looked at. level: fine | warning | fault. fix: "" where nothing is to be done."""

    check: str
    level: str
    found: str
    fix: str = ""


def on_this_machine(settings: Settings, files: int, memory: int) -> Iterator[Finding]:
    """All checks, in the order of the page. `files`: that a process may have open; `memory`: bytes it may have, 0 =
    nobody knows."""
    now = SystemClock.wall()
    yield from _folder(settings, now)
    yield from _users(settings)
    yield from of_dead_letters(settings)
    yield _open_files(settings.edge.max_connections, files)
    yield of_memory(settings.memory, memory)
    for name, cert, key in certificates(settings):
        yield from of_certificate(name, cert, key, now)


def _folder(settings: Settings, now: float) -> Iterator[Finding]:
    folder = settings.data
    if fingerprint(folder) is None:
        yield Finding("data", WARNING, f"{folder} is not there", "the first start makes it; or name another by --data")
        return
    yield of_rights("data", folder, 0o002)
    try:
        file = temporary_file(folder)
    except OSError as error:
        yield Finding(
            "data", FAULT, f"nothing can be written into {folder}: {error.strerror}",
            "run the doctor as the broker's user; is it that user: chown the folder, or remount it writable",
        )  # fmt: skip
        return
    try:
        yield of_syncs(list(_syncs(file)), settings.journal.sync)
    except OSError as error:
        yield Finding("disk speed", FAULT, f"{folder}: {error.strerror}", "look at the disk (dmesg) and its room")
    finally:
        file.close()
    yield of_room(OsFiles().free_bytes(folder), settings)
    journal = os.path.join(folder, "journal")
    if fingerprint(journal) is not None:
        yield of_rights("journal", journal)
    yield of_clock(_newest(journal), now)


def _syncs(file: File) -> Iterator[float]:
    """Seconds of each."""
    started = SystemClock.monotonic()
    for number in range(SYNCS):
        before = SystemClock.monotonic()
        if before - started > SYNCS_FOR_S:
            return
        file.pwrite(bytes(BLOCK), number * BLOCK)
        file.sync()
        yield SystemClock.monotonic() - before


def _newest(folder: str) -> float:
    """When something in it was last written, in seconds; 0: there is nothing."""
    marks = [fingerprint(os.path.join(folder, name)) for name in OsFiles().listdir(folder)]
    return max((mark[1] / 1e9 for mark in marks if mark is not None), default=0.0)


def of_rights(check: str, path: str, others: int = 0o007) -> Finding:
    """`others`: what nobody but owner and group may do with it."""
    bits = mode(path)
    if bits & others:
        right = "w" if others == 0o002 else "rwx"
        return Finding(check, WARNING, f"{path} is open to everybody ({bits:04o})", f"chmod o-{right} {path}")
    return Finding(check, FINE, f"{path} ({bits:04o})")


def of_syncs(seconds: Sequence[float], sync: bool) -> Finding:
    """seconds: of each write and sync, at least one."""
    middle, worst = sorted(seconds)[len(seconds) // 2], max(seconds)
    text = (
        f"{BLOCK // 1024} KiB are synced in {middle * 1000:.1f} ms (median of {len(seconds)}; worst {worst * 1000:.0f})"
    )
    if not sync:
        return Finding(
            "disk speed", WARNING, f"{text}, but journal.sync is off: a power cut loses what was receipted",
            "set journal.sync = true",
        )  # fmt: skip
    if middle > SLOW_S:
        return Finding(
            "disk speed", WARNING, text,
            "every receipt waits for a sync: use a disk whose cache survives a power cut, not a network share",
        )  # fmt: skip
    if worst > HANG_S:
        return Finding(
            "disk speed", WARNING, text, "something else takes the disk at times: give the journal one of its own"
        )
    return Finding("disk speed", FINE, text)


def of_room(free: int, settings: Settings) -> Finding:
    """free: bytes of the volume."""
    journal = settings.journal
    text = f"{free:,} bytes are free on the volume of {settings.data}"
    if free < journal.min_free_bytes:
        return Finding(
            "disk room", FAULT, f"{text}; below {journal.min_free_bytes:,} SEND is refused (journal.min_free_bytes)",
            "free space or enlarge the volume; consumers go on and make room as well",
        )  # fmt: skip
    if free < 2 * journal.min_free_bytes + 4 * journal.segment_bytes:
        return Finding(
            "disk room", WARNING, f"{text}; below {journal.min_free_bytes:,} SEND is refused",
            "enlarge the volume, or see by `stampede queues --sort -messages` what waits",
        )  # fmt: skip
    return Finding("disk room", FINE, text)


def of_clock(newest: float, now: float) -> Finding:
    """newest: when the journal was last written, 0 = never."""
    if newest - now > AHEAD_S:
        return Finding(
            "clock", FAULT, f"the journal was written {newest - now:,.0f} s from now: the clock went back",
            "set the clock (chrony, systemd-timesyncd) before a broker starts: delays and times to live count by it",
        )  # fmt: skip
    return Finding("clock", FINE, "the clock is not behind what it has written")


def _users(settings: Settings) -> Iterator[Finding]:
    path = settings.edge.users_file or os.path.join(settings.data, "users.toml")
    if fingerprint(path) is None:
        if settings.edge.users_file:
            yield Finding("users", FAULT, f"{path} is not there", "mend edge.users_file, or `stampede user add NAME`")
        else:
            yield Finding("users", FINE, "no users: only this machine is served")
        return
    yield of_rights("users", path)
    try:
        load_users(path)
    except (BrokerError, OSError) as error:
        yield Finding("users", FAULT, str(error), "mend the file: a broker does not start with it")


def of_dead_letters(settings: Settings) -> Iterator[Finding]:
    """Who may read no messages of an address, but may where its dead letters and expired messages go."""
    engine = settings.engine
    permissions = Permissions(settings.edge.permissions, engine.wildcard_delimiter)
    matcher = Matcher(engine)
    groups = [(), *[(group,) for group in sorted(permissions.groups)]]
    for match in sorted(settings.edge.permissions):
        address = match.replace("#", "any").replace("*", "any")
        rules = matcher(address)
        for target, queue in (
            (rules.dead_letter_address, dead_letter_queue(rules, address)),
            (rules.expiry_address, expiry_queue(rules, address)),
        ):
            if not target or FQQN in match:
                continue
            strangers = [
                name[0] if name else "every user"
                for name in groups
                if _reads(permissions.rights(name), target, queue)
                and not _reads(permissions.rights(name), address, None)
            ]
            if strangers:
                yield Finding(
                    "dead letters", WARNING,
                    f"messages of {match} may end at {target}, which {', '.join(strangers)} may read, but not {match}",
                    f"give {match} a dead_letter_address (expiry_address) of its own, with permissions as narrow",
                )  # fmt: skip
                break


def _reads(rights: Rights | None, address: str, queue: str | None) -> bool:
    return rights is None or not rights.at(address, queue).isdisjoint(("consume", "browse", "read"))


def _open_files(connections: int, files: int) -> Finding:
    if files - SPARE_FILES < connections:
        return Finding(
            "open files", WARNING, f"a process may have {files:,} files open; edge.max_connections is {connections:,}",
            f"ulimit -n {connections + SPARE_FILES} (LimitNOFILE= of systemd), or lower edge.max_connections: until "
            "then the broker lowers it by itself",
        )  # fmt: skip
    return Finding("open files", FINE, f"{files:,} for {connections:,} connections")


def of_memory(settings: MemorySettings, memory: int) -> Finding:
    """memory: bytes this process may have, 0 = nobody knows."""
    limit = settings.limit_bytes
    if limit < 0:
        return Finding(
            "memory", WARNING, "memory.limit_bytes is -1: messages may take all there is, then the system ends it",
            "set memory.limit_bytes = 0 (half of what there is)",
        )  # fmt: skip
    if memory and limit > memory * 0.75:
        return Finding(
            "memory", FAULT, f"memory.limit_bytes is {limit:,} of {memory:,} bytes that this process may have",
            "set it to half of that, or 0: the interpreter and fragmentation need the rest",
        )  # fmt: skip
    if memory and memory < SMALL:
        return Finding(
            "memory", WARNING, f"this process may have {memory:,} bytes", f"give the container {SMALL:,} or more"
        )
    return Finding(
        "memory", FINE, f"{limit or memory // 2:,} bytes for messages" if memory else "the size is not known"
    )


def certificates(settings: Settings) -> list[tuple[str, str, str]]:
    """(setting, file, file of its key or "") of every certificate that is in use, each file once."""
    found = [
        (f"acceptor {name}", acceptor.tls_cert_file, acceptor.tls_key_file)
        for name, acceptor in all_acceptors(settings).items()
        if acceptor.tls and acceptor.port >= 0
    ]
    for table in ("cluster", "etcd", "log_reads", "scaler"):
        of = getattr(settings, table)
        found.append((f"{table}.cert_file", of.cert_file, of.key_file))
        found.append((f"{table}.ca_file", getattr(of, "ca_file", ""), ""))
    found.append(("edge.tls_client_ca_file", settings.edge.tls_client_ca_file, ""))
    once = {path: (name, path, key) for name, path, key in reversed(found) if path}
    return list(reversed(once.values()))


def of_certificate(name: str, path: str, key: str, now: float) -> Iterator[Finding]:
    """Its end, whether the key belongs to it, and who may read the key. `key`: "" = there is none."""
    check = f"certificate of {name}"
    try:
        ends = not_after(first_certificate(read_whole(path).decode("utf-8")))
        if key:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, key, password=lambda: b"-")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        yield Finding(
            check, FAULT, f"{path}{f' with {key}' if key else ''}: {getattr(error, 'strerror', None) or error}",
            "both must be readable PEM files of one pair, the key without a passphrase",
        )  # fmt: skip
        return
    days = (ends - now) / DAY_S
    if days <= 0:
        yield Finding(check, FAULT, f"{path} has ended {-days:,.0f} days ago", "renew it; it is read again by itself")
    elif ends - now < SOON_S:
        yield Finding(check, WARNING, f"{path} ends in {days:,.0f} days", "renew it; it is read again by itself")
    else:
        yield Finding(check, FINE, f"{path} ends in {days:,.0f} days")
    if key:
        yield of_rights(f"key of {name}", key)
