"""Management messages: the page lists what there is, and whatever goes wrong, the client that waits is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker.admin.management import management
from broker.core.address import Routing
from broker.core.errors import Code
from broker.core.management import ManagementRequest, ReplyTo

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "compatibility.md").read_text()


def test_the_page_lists_all_of_it():
    section = PAGE.partition("### Management messages")[2].partition("\n## ")[0]
    operations = [name for table in management.OPERATIONS.values() for name in table]
    assert [name for name in operations if f"`{name}(" not in section] == []
    names = [*management.OF_QUEUE, *management.OF_ADDRESS, *management.OF_BROKER, management.SUCCEEDED]
    assert [name for name in names if f"`{name}`" not in section] == []


class Broken:
    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


def test_a_client_that_waits_is_told_whatever_happens():
    """Frames of its connection wait for the end of a request."""
    broken: Any = Broken()
    to = ReplyTo(0, "a", Routing.ANYCAST, None, True)

    async def played() -> list[Any]:
        told: list[Any] = []
        asked = [ManagementRequest("u", "127.0.0.1:1", {"reply-to": "a"}, b"", to)]
        management.MessageManagement(broken, [], broken).manage(asked, told.append)
        await asyncio.sleep(0.01)
        return told

    (refused,) = asyncio.run(played())
    assert refused.code is Code.INTERNAL
