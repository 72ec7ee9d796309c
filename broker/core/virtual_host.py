"""Virtual hosts: name spaces side by side in one broker. What belongs to one has its root in front of its name:

    $host/shop.orders.eu     the address (queue, user, client-id) `orders.eu` of the host `shop`
    $host/shop$exchange/x    one that is the broker's own there: no wildcard of the host stands for it
    $temp.shop/<bits>        a temporary destination

The root is one word, or the beginning of one, whatever stands between words. Names of the default host are as they are.

Rule: names only; the one place that puts a root in front of a name, or takes it off. No client can write one.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .address import RECURRING, TEMPORARY

HOST: Final = "$host/"
"""Beginning of everything that belongs to a host, and reserved: who names it himself is refused."""
NAME: Final = re.compile("[A-Za-z0-9_-]{1,40}")
_FULL: Final = re.compile(r"\$host/([A-Za-z0-9_-]{1,40})([^A-Za-z0-9_-])(.*)", re.DOTALL)


class LocalName(NamedTuple):
    """A name taken apart.    host   its virtual host, "" = the default one.    local   what its clients call it."""

    host: str
    local: str


def split(name: str) -> LocalName:
    """Of an address, queue, user, or a match of addresses."""
    found = _FULL.match(name) if name.startswith(HOST) else None
    if found is None:
        return LocalName("", name)
    host, mark, rest = found.groups()
    return LocalName(host, mark + rest if mark == "$" else rest)


def whose(address: str) -> LocalName:
    """The same also of a temporary one, and of one where rests what is sent again and again: a user who may see and
    manage addresses of a host may these of it, and nobody else."""
    if address.startswith(RECURRING):
        host, local = split(address.removeprefix(RECURRING))
        return LocalName(host, RECURRING + local)
    if address.startswith(TEMPORARY):
        host, mark, bits = address.removeprefix(TEMPORARY).partition("/")
        return LocalName(host, TEMPORARY + bits) if mark and NAME.fullmatch(host) else LocalName("", address)
    return split(address)


def host_of(address: str) -> str:
    """Whose an address is."""
    return whose(address).host


class VirtualHost:
    """One of them; name "": the default host.    delimiter   between the words of addresses."""

    __slots__ = ("_front", "_root", "name")

    def __init__(self, name: str = "", delimiter: str = ".") -> None:
        self.name = name
        self._root = HOST + name
        self._front = self._root + delimiter

    @property
    def root(self) -> str:
        """What all its names begin with; "" of the default host."""
        return self._root if self.name else ""

    def inside(self, name: str) -> str:
        """A name of the host as the broker has it."""
        if not self.name:
            return name
        return (self._root if name.startswith("$") else self._front) + name

    def address(self, name: str) -> str:
        """The same for an address, which may be a temporary one."""
        if self.name and name.startswith(TEMPORARY):
            return f"{TEMPORARY}{self.name}/{name[len(TEMPORARY) :]}"
        return self.inside(name)

    def kept(self, name: str) -> str:
        """The same for a name that may be one of the host's in full, or none."""
        return name if not name or split(name).host == self.name != "" else self.inside(name)

    def told(self, text: str) -> str:
        """A text for clients of the host: names in it as they know them."""
        if not self.name or "$" not in text:
            return text
        text = text.replace(self._front, "").replace(self._root + "$", "$")
        return text.replace(f"{TEMPORARY}{self.name}/", TEMPORARY)


DEFAULT: Final = VirtualHost()
