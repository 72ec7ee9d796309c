"""From Artemis' broker.xml to our settings, and to notes about what could not be carried over.

What Artemis does where its file says nothing is written out where ours would do something else, so that addresses
behave as they did: no prefixes, MULTICAST by default, no dead letter address.

Rule: pure, bytes in, settings and notes out. Nothing is dropped in silence: an element is carried over or has a note
with its line. Every value is checked as one of a config file is; what would be refused becomes a note as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.core.errors import ConfigError

from .. import acceptor_url
from ..catalogue import leaves
from ..checks import check_delimiter
from ..load import checked_entry, entry_table
from ..values import coerce
from .artemis_names import (
    ADDRESS,
    ADDRESS_WITHOUT,
    BROKER_WITHOUT,
    DIVERT,
    DIVERT_WITHOUT,
    PERMISSION,
    PERMISSION_WITHOUT,
    QUEUE,
    QUEUE_WITHOUT,
)
from .xml_tree import Element, parse

ADDRESSES, QUEUES, DIVERTS, ACCEPTORS = "engine.addresses", "engine.queues", "engine.diverts", "acceptors"
PERMISSIONS = "edge.permissions"
UNSAID: dict[str, Any] = {"engine.address.default_routing": "MULTICAST", "engine.address.dead_letter_address": ""}
"""What addresses do in Artemis when its file says nothing, where that is not our default."""
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was not carried over, or not as it stood."""

    line: int
    what: str
    why: str


@dataclass(slots=True)
class Imported:
    """`values`: dotted name → value. `tables`: table → entry → its settings, all of them typed."""

    values: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    delimiter: str = "."
    words: dict[str, str] = field(default_factory=dict)
    """Word of a pattern in the file → in ours, where they differ."""
    closed: dict[str, Element] = field(default_factory=dict)
    """Matches that take the place of security-settings which cannot be here: for nobody."""

    def note(self, element: Element, why: str, what: str = "") -> None:
        self.notes.append(Note(element.line, what or f"<{element.name}>", why))

    def ours(self, name: str) -> str:
        """A name or pattern of the file with our wildcards."""
        if not self.words:
            return name
        address, mark, queue = name.partition("::")
        words = [self.words.get(word, word) for word in address.split(self.delimiter)]
        return self.delimiter.join(words) + mark + queue

    def misread(self, name: str) -> bool:
        """Has the name of the file a word that is a wildcard here and is none there."""
        words = name.partition("::")[0].split(self.delimiter)
        return any(word in self.words.values() and word not in self.words for word in words)

    def entry(self, table: str, name: str) -> dict[str, Any]:
        return self.tables.setdefault(table, {}).setdefault(name, {})


def convert(data: bytes) -> Imported:
    """The settings that do what this file does. Raises ConfigError when it is no broker.xml."""
    root = parse(data)
    core = root if root.name == "core" else root.child("core")
    if core is None:
        raise ConfigError(f"The file is not a broker.xml: it holds <{root.name}>, but no <core>.")
    found = convert_core(core)
    for element in root if core is not root else ():
        if element is not core:
            found.note(element, BROKER_WITHOUT.get(element.name, "unknown to this importer"))
    found.notes.sort(key=lambda note: note.line)
    return found


def convert_core(core: Element) -> Imported:
    """The same of what is in <core>."""
    found = Imported(values=dict(UNSAID))
    for element in core:
        _resolve_properties(element, found)
    _wildcards(core, found)
    for element in core:
        section = SECTIONS.get(element.name)
        if section is not None:
            section(element, found)
        else:
            found.note(element, BROKER_WITHOUT.get(element.name, "unknown to this importer"))
    _broker_wide(core, found)
    close(found)
    _open_to_all(core, found)
    found.notes.sort(key=lambda note: note.line)
    return found


_PROPERTY = re.compile(r"\$\{([^}:]+)(?::([^}]*))?\}")


def _resolve_properties(element: Element, found: Imported) -> None:
    """`${name:default}`: the default is taken."""
    texts = [element.text, *element.attributes.values()]
    for name, default in {match for text in texts for match in _PROPERTY.findall(text)}:
        found.note(element, f"the system property is not known here; {default!r} is taken for it", f"${{{name}}}")
    element.reword(lambda text: _PROPERTY.sub(r"\2", text))
    for child in element:
        _resolve_properties(child, found)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────


def _size(text: str) -> str:
    """`10M`, `10Mb` and `10MiB` are the same to Artemis; ours are plain bytes."""
    match = re.fullmatch(r"(-?\d+)\s*([KMG]?)(?:I?B)?", text.strip(), re.IGNORECASE)
    return text if match is None else str(int(match[1]) * _SIZES[match[2].upper()])


def _rename(text: str) -> str:
    return text.strip().upper().removeprefix("MESSAGES_PER_")


def _zero_for_none(text: str) -> str:
    return "0" if text.strip() == "-1" else text


REWRITTEN: dict[str, Callable[[str], str]] = {
    "max_size_bytes": _size,
    "reject_threshold_bytes": _size,
    "page_limit_bytes": _size,
    "slow_consumer_unit": _rename,
    "max_redelivery_delay_ms": _zero_for_none,
    "full_policy": _rename,
    "page_full_policy": _rename,
    "slow_consumer_policy": _rename,
    "default_routing": _rename,
    "routing": _rename,
}
"""Field → how Artemis' text becomes ours, where that is not the same text."""


def _add_entry(table: str, name: str, fields: Mapping[str, str], about: Mapping[str, Element], found: Imported) -> None:
    """Adds to an entry what its elements say. `fields`: Artemis' name → ours."""
    for known, element in about.items():
        ours = fields[known]
        text = REWRITTEN.get(ours, str)(element.text)
        try:
            typed = entry_table(table, name, {ours: text}, f"line {element.line}", found.delimiter)
        except ConfigError as error:
            found.note(element, str(error), f"<{known}>")
            continue
        found.entry(table, name).update(typed)


def _said(
    element: Element, fields: Mapping[str, str], without: Mapping[str, str], found: Imported
) -> dict[str, Element]:
    """What is said in attributes and elements, by Artemis' name; the rest becomes notes. A name whose reason in
    `without` is empty is read elsewhere."""
    said: dict[str, Element] = {}
    for name, value in element.attributes.items():
        if name in fields or name in without:
            said[name] = _worded(name, value, element.line)
    for child in element:
        text = child.attributes.get("string", child.text) if child.name == "filter" else child.text
        said[child.name] = _worded(child.name, text, child.line)
    for name in [name for name in said if name not in fields]:
        child = said.pop(name)
        reason = without.get(name, "unknown to this importer")
        if reason:
            found.note(child, reason, f"<{name}> of {_title(element)}")
    return said


def _worded(name: str, text: str, line: int) -> Element:
    return Element(name, {}, line, text.strip())


def _title(element: Element) -> str:
    for key in ("match", "name"):
        if key in element.attributes:
            return f"{element.name} {element.attributes[key]!r}"
    return f"<{element.name}>"


# ── sections ─────────────────────────────────────────────────────────────────────────────────────────


def _acceptors(section: Element, found: Imported) -> None:
    taken = False
    for element in section:
        name, url = element.attributes.get("name", ""), element.text
        if not name or not url:
            found.note(element, "it has no name or no URL", _title(element))
            continue
        taken = _acceptor(name, url, element, found) or taken
    # The file lists all ports; those of [edge] would be additional ones.
    if taken:
        found.values |= {"edge.port": -1, "edge.ws_port": -1}


def _acceptor(name: str, url: str, element: Element, found: Imported) -> bool:
    what, where = f"acceptor {name!r}", f"acceptors.{name}.url"
    head, mark, query = url.partition("?")
    kept = []
    try:
        acceptor_url.read(head, where)
    except ConfigError as error:
        found.note(element, str(error), what)
        return False
    for part in re.split(r"[;&]", query):
        try:
            acceptor_url.read(f"{head}?{part}", where)
        except ConfigError as error:
            if part.strip().startswith("protocols"):
                found.note(element, "none of its protocols is STOMP", what)
                return False
            found.note(element, str(error), what)
        else:
            kept.append(part)
    try:
        read = acceptor_url.read(head + mark + ";".join(kept), where)
    except ConfigError as error:  # parameters that contradict each other
        found.note(element, str(error), what)
        return False
    for text in read.notes:
        found.note(element, text, what)
    prefixes = {"anycast_prefix": "", "multicast_prefix": ""}
    found.entry(ACCEPTORS, name).update(prefixes | read.settings)
    return True


def _address_settings(section: Element, found: Imported) -> None:
    for element in section:
        match = found.ours(element.attributes.get("match", ""))
        said = _said(element, ADDRESS, ADDRESS_WITHOUT, found)
        if match.startswith("activemq.management"):
            found.note(element, BROKER_WITHOUT["management-address"], _title(element))
            continue
        if found.misread(element.attributes.get("match", "")):
            found.note(element, "a word of it is a wildcard here and was none there", _title(element))
            continue
        _add_entry(ADDRESSES, match, ADDRESS, said, found)
        _check_entry(ADDRESSES, match, element, found)


def _check_entry(table: str, name: str, element: Element, found: Imported) -> None:
    """Takes an entry out again that would be refused as a whole."""
    entries, where = found.tables.get(table, {}), f"line {element.line}"
    values = entries.get(name, {})
    try:
        checked_entry(table, name, values, where, found.delimiter)
    except ConfigError as error:
        entries.pop(name, None)
        found.note(element, str(error), _title(element))


def _addresses(section: Element, found: Imported) -> None:
    for element in section:
        address = found.ours(element.attributes.get("name", ""))
        types = [child for child in element if child.name in ("anycast", "multicast")]
        for child in element:
            if child not in types:
                found.note(child, "unknown to this importer", f"<{child.name}> of {_title(element)}")
        if not address:
            found.note(element, "it has no name", _title(element))
            continue
        entry = found.entry(ADDRESSES, address)
        entry["declared"] = True
        if types:
            entry["routing_types"] = ",".join(dict.fromkeys(child.name.upper() for child in types))
        for child in types:
            for queue in child:
                _queue(queue, address, child.name.upper(), found)


def _queue(element: Element, address: str, routing: str, found: Imported) -> None:
    name = element.attributes.get("name", "")
    if not name:
        found.note(element, "it has no name", f"a queue of address {address!r}")
        return
    fields = {**QUEUE, "enabled": "paused", "durable": "durable"}
    said = _said(element, fields, {**QUEUE_WITHOUT, "address": ""}, found)
    enabled, durable = said.pop("enabled", None), said.pop("durable", None)
    if enabled is not None and enabled.text.lower() == "false":
        found.note(enabled, "a disabled queue takes no messages; leave it out here", f"queue {name!r}")
        return
    if durable is not None and durable.text.lower() == "false":
        found.note(
            durable, "the queue itself is always kept; its messages are by their persistent header", f"queue {name!r}"
        )
    found.entry(QUEUES, name).update(address=address, routing=routing)
    _add_entry(QUEUES, name, QUEUE, said, found)
    _check_entry(QUEUES, name, element, found)


def _old_queues(section: Element, found: Imported) -> None:
    """<queues>, from before addresses had routing types: MULTICAST, as Artemis reads it."""
    for element in section:
        address = found.ours(element.said("address") or element.attributes.get("name", ""))
        _queue(element.without("address"), address, "MULTICAST", found)


def _diverts(section: Element, found: Imported) -> None:
    for element in section:
        name = element.attributes.get("name", "")
        said = _said(element, DIVERT, {**DIVERT_WITHOUT, "name": ""}, found)
        if not name or "address" not in said or "forwarding-address" not in said:
            found.note(element, "it needs name, address and forwarding-address", _title(element))
            continue
        _add_entry(DIVERTS, name, DIVERT, said, found)
        _check_entry(DIVERTS, name, element, found)


def _wildcards(core: Element, found: Imported) -> None:
    """Looked at first: patterns are read with its delimiter."""
    usual = {"single-word": "*", "any-words": "#", "routing-enabled": "true", "enabled": "true"}
    for section in core:
        for child in section if section.name == "wildcard-addresses" else ():
            if child.name == "delimiter":
                _delimiter(child, found)
            elif child.name not in usual:
                found.note(child, "unknown to this importer")
            elif child.text.lower() != usual[child.name]:
                _other_word(child, usual[child.name], found)


def _other_word(element: Element, ours: str, found: Imported) -> None:
    why = f"it is always {ours} here"
    if ours in ("*", "#") and element.text:
        found.words[element.text] = ours
        why += "; matches and names were rewritten, and clients have to write it so as well"
    found.note(element, why)


def _delimiter(element: Element, found: Imported) -> None:
    try:
        check_delimiter(element.text)
    except ConfigError as error:
        found.note(element, str(error))
    else:
        found.values["engine.wildcard_delimiter"] = found.delimiter = element.text


def _security(section: Element, found: Imported) -> None:
    for element in section:
        if element.name == "security-setting":
            _permissions(element, found)
        else:
            why = "users and their groups are those of `stampede user`; give each user the groups that his roles were"
            found.note(element, why, f"<{element.name}> of <{section.name}>")


def _permissions(element: Element, found: Imported) -> None:
    """One security-setting; an entry also if nothing of it means anything here: then for nobody, as it was."""
    match = found.ours(element.attributes.get("match", ""))
    if match.startswith("activemq.management"):
        found.note(element, BROKER_WITHOUT["management-address"], _title(element))
        return
    if found.misread(element.attributes.get("match", "")):
        found.closed[around(match, found.delimiter)] = element
        return
    found.entry(PERMISSIONS, match)
    for child in element:
        type, roles = child.attributes.get("type", "?"), child.attributes.get("roles", "")
        if child.name == "permission" and type in PERMISSION:
            said = _worded(type, ",".join(filter(None, map(str.strip, roles.split(",")))), child.line)
            _add_entry(PERMISSIONS, match, PERMISSION, {type: said}, found)
        else:
            why = PERMISSION_WITHOUT.get(type, "unknown to this importer")
            found.note(child, why, f"{type} of {_title(element)}")
    _check_entry(PERMISSIONS, match, element, found)
    if match not in found.tables[PERMISSIONS]:
        found.closed[around(match, found.delimiter)] = element


def around(match: str, delimiter: str) -> str:
    """A match that may be here, of at least the addresses that this one is of."""
    words = match.partition("::")[0].split(delimiter)
    plain = words[: words.index("#")] if "#" in words else words[:-1]
    return delimiter.join([*plain, "#"]) if all(plain) else "#"


def close(found: Imported) -> None:
    """A security-setting that cannot be carried over must not leave its addresses to a wider one: it may grant more."""
    for match, element in found.closed.items():
        found.tables.setdefault(PERMISSIONS, {})[match] = {}
        why = f"instead [edge.permissions.{match!r}] lets nobody do anything there: write the entries that you want"
        found.note(element, why, _title(element))


def _open_to_all(core: Element, found: Imported) -> None:
    """security-enabled false: nobody was asked what he may do."""
    if core.said("security-enabled").lower() == "false" and PERMISSIONS in found.tables:
        del found.tables[PERMISSIONS]
        section = core.child("security-settings")
        assert section is not None
        found.note(section, "security-enabled is false, so they were not in use; everybody may do everything")


# ── what holds for the whole broker ──────────────────────────────────────────────────────────────────


def _broker_wide(core: Element, found: Imported) -> None:
    ttl = core.child("connection-ttl-override")
    for name in found.tables.get(ACCEPTORS, {}):
        acceptor = found.tables[ACCEPTORS][name]
        if ttl is not None and "connection_ttl_ms" not in acceptor:
            _add_entry(ACCEPTORS, name, {"connection-ttl-override": "connection_ttl_ms"}, {ttl.name: ttl}, found)
        if core.said("populate-validated-user").lower() == "true":
            acceptor["validated_user"] = True


def _plain(setting: str, rewrite: Callable[[str], str] = str) -> Callable[[Element, Imported], None]:
    """An element that is one setting of ours."""

    def assign(element: Element, found: Imported) -> None:
        try:
            found.values[setting] = coerce(leaves()[setting], rewrite(element.text), f"line {element.line}")
        except ConfigError as error:
            found.note(element, str(error))

    return assign


def _elsewhere(element: Element, found: Imported) -> None:
    """Is read before all others, or after them: see convert()."""


def _min_free(element: Element, found: Imported) -> None:
    if element.text.strip() != "-1":
        _plain("journal.min_free_bytes", _size)(element, found)


SECTIONS: dict[str, Callable[[Element, Imported], None]] = {
    "acceptors": _acceptors,
    "address-settings": _address_settings,
    "addresses": _addresses,
    "queues": _old_queues,
    "diverts": _diverts,
    "wildcard-addresses": _elsewhere,
    "security-settings": _security,
    "connection-ttl-override": _elsewhere,
    "populate-validated-user": _elsewhere,
    "id-cache-size": _plain("engine.address.id_cache_size"),
    "journal-file-size": _plain("journal.segment_bytes", _size),
    "journal-datasync": _plain("journal.sync"),
    "min-disk-free": _min_free,
}
"""Element of <core> → what reads it. All others are in artemis_names.BROKER_WITHOUT."""
