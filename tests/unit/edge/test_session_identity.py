"""Who a connection is, before and after it has logged in."""

from __future__ import annotations

from types import SimpleNamespace as Some
from typing import Any

import pytest

from broker.core.virtual_host import VirtualHost
from broker.edge.access.auth import ANONYMOUS, Principal
from broker.edge.session.session_identity import SessionIdentity


def made(peer: str = "10.0.0.7:4711") -> SessionIdentity:
    edge: Any = Some(rights=lambda user: f"rights of {user}", rights_of=lambda groups: groups)
    entrance: Any = Some(dialect=Some(host=VirtualHost("")), settings="its acceptor")
    channel: Any = Some(id=5, peer=peer)
    return SessionIdentity(edge, channel, entrance)


@pytest.mark.parametrize(
    "peer, share", [("10.0.0.7:4711", "@10.0.0.7"), ("[2001:db8:1:2:3::4]:80", "@2001:db8:1:2::/64")]
)
def test_strangers_share_a_network_and_users_have_a_share_each(peer, share):
    session = made(peer)
    assert session.whose == share and session.told == f"{peer} #5"
    session._is(ANONYMOUS)
    assert session.whose == share
    session._is(Principal("ada"))
    assert session.whose == "ada" and session.told == f"{peer} #5 (user 'ada')"


def test_rights_are_those_of_the_table_or_of_the_groups_that_somebody_else_has_proven():
    session = made()
    assert session.rights is None, "nobody yet"
    session._is(Principal("ada", mark=9))
    assert (session.rights, session.groups, session.login_mark) == ("rights of ada", None, 9)
    other = made()
    other._is(Principal("eve", groups=("guests",), outside=True))
    assert other.rights == other.groups == ("guests",)


def test_a_long_name_is_cut_where_people_read_it():
    session = made()
    session._is(Principal("x" * 5000))
    assert len(session.told) < 200 and len(session.principal) == 5000
