"""docs/compatibility.md: every setting of ours and every name of Artemis' has a row, with a state and in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.config.acceptor_url import NAMES, SPECIAL, WITHOUT_USE
from broker.config.artemis import artemis_names as names
from broker.config.catalogue import TABLES, entry_leaves

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "compatibility.md").read_text()
SECTIONS = {title: text for title, _, text in (part.partition("\n") for part in PAGE.split("\n## "))}
STATES = {"kept", "fixed", "extra", "not"}
OF_TABLES = {
    "acceptors": "Acceptors", "engine.addresses": "Address settings", "engine.queues": "Queues",
    "engine.diverts": "Diverts", "edge.permissions": "Permissions",
    "edge.exchanges": "Names of RabbitMQ and ActiveMQ Classic",
    "edge.virtual_hosts": "Names of RabbitMQ and ActiveMQ Classic", "bridges": "Bridges",
    "edge.issuers": "Permissions",
    "edge.ldap": "Permissions",
    "edge.hooks": "Permissions",
    "edge.quotas": "Permissions",
}  # fmt: skip
_HEADERS = """
    accept-version login passcode client-id request-id host heart-beat session server version receipt-id
    destination destination-type persistent priority expires ttl correlation-id reply-to type content-type
    content-length JMSXGroupID JMSXGroupSeq AMQ_SCHEDULED_DELAY AMQ_SCHEDULED_TIME _AMQ_DUPL_ID _AMQ_LVQ_NAME
    _AMQ_SCHED_DELIVERY transaction receipt id ack selector no-local activemq.noLocal subscription-type
    durable-subscriber-name durable-subscription-name activemq.subscriptionName consumer-window-size
    activemq.prefetchSize prefetch-count consumer-priority browser subscription message-id redelivered delivery-count
    timestamp ingress-timestamp JMSXUserID amqMessageId _AMQ_ORIG_ADDRESS _AMQ_ORIG_QUEUE _AMQ_ORIG_MESSAGE_ID
    _AMQ_ACTUAL_EXPIRY requeue
"""
HEADERS = _HEADERS.split()


def rows(section: str) -> list[list[str]]:
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("table", list(TABLES))
def test_every_setting_has_a_row(table):
    page = SECTIONS[OF_TABLES[table]]
    missing = [name for name in entry_leaves(table) if f"`{name}`" not in page]
    assert missing == []


@pytest.mark.parametrize(
    ("section", "known"),
    [
        ("Acceptors", [*NAMES, *SPECIAL, *WITHOUT_USE]),
        ("Address settings", [*names.ADDRESS, *names.ADDRESS_WITHOUT]),
        ("Queues", [*names.QUEUE, *names.QUEUE_WITHOUT]),
        ("Diverts", [*names.DIVERT, *names.DIVERT_WITHOUT]),
        ("Permissions", [*names.PERMISSION, *names.PERMISSION_WITHOUT]),
        ("The broker as a whole", list(names.BROKER_WITHOUT)),
    ],
)
def test_every_name_of_artemis_has_a_row(section, known):
    assert [name for name in known if f"`{name}`" not in SECTIONS[section]] == []


@pytest.mark.parametrize("header", HEADERS)
def test_every_header_is_spoken_of(header):
    assert re.search(rf"`{re.escape(header)}[`:]", PAGE)


@pytest.mark.parametrize(
    "section",
    ["Acceptors", "SEND", "SUBSCRIBE, UNSUBSCRIBE", "Windows", "MESSAGE", "ACK, NACK", "Transactions", "Large messages",
     "Address settings", "Queues", "Diverts", "Bridges", "The broker as a whole", "Selectors", "Flow control"],
)  # fmt: skip
def test_every_row_has_a_state(section):
    for row in rows(section):
        assert STATES & set(row) or "state" in row, row


def test_what_is_said_of_addresses_is_what_the_importer_does():
    """A name with a counterpart is not "not", one without is nothing else."""
    for row in rows("Address settings"):
        for name in re.findall(r"`([a-z-]+)`", row[0]):
            assert (row[2] == "not") == (name in names.ADDRESS_WITHOUT), row
            assert name in names.ADDRESS_WITHOUT or row[1] == f"`{names.ADDRESS[name]}`"
