"""From hornetq-configuration.xml to our settings: what Artemis kept of it is read as Artemis', the rest is rewritten.

HornetQ's addresses are `jms.queue.NAME` and `jms.topic.NAME`, and its clients write them so: no prefix is taken off.

Rule: as the importer of broker.xml; the tree is changed before that one reads it, lines and all.
"""

from __future__ import annotations

from ..artemis.importing import ADDRESSES, Imported, convert_core
from ..artemis.xml_tree import Element

TOPICS = "jms.topic.#"
_PARAMETERS = {
    "host": "", "port": "", "protocol": "protocols", "protocols": "protocols", "ssl-enabled": "sslEnabled",
    "key-store-path": "keyStorePath", "trust-store-path": "trustStorePath", "need-client-auth": "needClientAuth",
    "connection-ttl": "connectionTtl", "stomp-enable-message-id": "stompEnableMessageId",
    "stomp-consumer-credits": "stompConsumerCredits", "stomp-min-large-message-size": "stompMinLargeMessageSize",
    "connections-allowed": "connectionsAllowed", "tcp-send-buffer-size": "tcpSendBufferSize",
    "tcp-receive-buffer-size": "tcpReceiveBufferSize", "tcp-no-delay": "tcpNoDelay", "backlog": "backlog",
}  # fmt: skip
"""Parameter of an acceptor → Artemis' name; empty: it stands elsewhere in the URL."""
_GONE = {
    "connectors": "nobody connects from here; edges and owners find each other by etcd",
    "bridges": "write each as a bridge over STOMP (docs/bridges.md)",
    "clustered": "a cluster is one broker (docs/cluster.md)", "backup": "replicas take over (docs/cluster.md)",
    "shared-store": "nothing is shared: owners have copies",
    "broadcast-groups": "edges and owners find each other by etcd",
    "discovery-groups": "edges and owners find each other by etcd", "cluster-connections": "a cluster is one broker",
    "paging-directory": "there is one folder: `data`", "bindings-directory": "there is one folder: `data`",
    "journal-directory": "there is one folder: `data`", "large-messages-directory": "there is one folder: `data`",
}  # fmt: skip


def convert(root: Element) -> Imported:
    """root: its <configuration>."""
    dropped = [element for element in root if element.name in _GONE]
    root.drop(_GONE)
    for section in root:
        if section.name == "acceptors":
            for acceptor in section:
                _acceptor(acceptor)
    found = convert_core(root)
    for element in dropped:
        found.note(element, _GONE[element.name])
    # Queues are anycast there, and what begins with jms.topic. is a topic.
    found.values["engine.address.default_routing"] = "ANYCAST"
    found.entry(ADDRESSES, TOPICS).setdefault("default_routing", "MULTICAST")
    for queue, values in found.tables.get("engine.queues", {}).items():
        if not values.get("address", queue).startswith(TOPICS[:-1]):
            values["routing"] = "ANYCAST"
    found.notes.sort(key=lambda note: (note.what not in ("<security-settings>", "<bridges>"), note.line))
    return found


def _acceptor(element: Element) -> None:
    """`<param key= value=>` as Artemis' URL."""
    given = {each.attributes.get("key", ""): each for each in element if each.name == "param"}
    if not given and element.text:
        return
    host = given["host"].attributes.get("value", "") if "host" in given else ""
    port = given["port"].attributes.get("value", "") if "port" in given else "5445"
    parts = [
        f"{_PARAMETERS.get(key, key)}={each.attributes.get('value', '')}"
        for key, each in given.items()
        if _PARAMETERS.get(key, key)
    ]
    element.become(f"tcp://{host or '0.0.0.0'}:{port}?{';'.join(parts)}")
