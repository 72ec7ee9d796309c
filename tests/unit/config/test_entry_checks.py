"""Queues and diverts that make no sense are refused, and the place is named."""

from __future__ import annotations

import pytest

from broker.config.addressing import DivertSettings
from broker.config.cross_checks.entry_checks import check_divert
from broker.core.errors import ConfigError


@pytest.mark.parametrize("forward", ["audit", "audit, archive", "audit::eu", "audit, orders::eu"])
def test_diverts_lead_to_addresses_and_to_single_queues(forward):
    check_divert(DivertSettings(address="orders", forward=forward), "engine.diverts.d", ".")


@pytest.mark.parametrize(
    ("address", "forward"),
    [
        ("orders", ""), ("orders", "audit,"), ("orders", "orders"), ("orders", "audit.*"), ("orders", "audit.#::q"),
        ("orders", "audit::"), ("orders", "::q"), ("orders", "a::b::c"), ("orders::eu", "audit"), ("#", "audit"),
    ],
)  # fmt: skip
def test_diverts_that_make_no_sense(address, forward):
    with pytest.raises(ConfigError, match=r"^engine\.diverts\.d: "):
        check_divert(DivertSettings(address=address, forward=forward), "engine.diverts.d", ".")
