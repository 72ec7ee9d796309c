"""Any broker's file: which one it is, and who reads it.

Rule: told by what is in the file, never by its name.
"""

from __future__ import annotations

from broker.core.errors import ConfigError

from ..artemis.importing import Imported, convert
from ..artemis.xml_tree import parse
from . import classic, definitions, hornetq

KNOWN = (
    "Artemis' broker.xml, ActiveMQ Classic's activemq.xml, hornetq-configuration.xml, and definitions that RabbitMQ "
    "has exported"
)


def read(data: bytes) -> Imported:
    """The settings that do what the file does. Raises ConfigError when it is none that can be read."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return definitions.convert(data)
    root = parse(data)
    if root.name == "configuration" and root.child("core") is None:
        return hornetq.convert(root)
    if (broker := classic.broker_of(root)) is not None:
        return classic.convert(broker)
    try:
        return convert(data)
    except ConfigError as error:
        raise ConfigError(f"{error} Read are {KNOWN}.") from None
