"""Opening the journal: how far it is, and who gives up waiting leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from broker.app.process.journal_opening import Opening
from broker.core.errors import JournalError


async def test_two_passes_are_one_hundred_percent():
    opening = Opening()
    assert opening.state() == {"owner": "recovering, 0 %"}

    def opener(watch: Any) -> str:
        watch(0.5)
        return "journal"

    assert await opening.open(opener) == "journal"  # type: ignore[arg-type, comparison-overlap]
    assert opening.state() == {"owner": "recovering, 25 %"}
    opening.second(0.5)
    assert opening.state() == {"owner": "recovering, 75 %"}


@pytest.mark.parametrize("finishes", [False, True])
async def test_who_gives_up_has_given_up_the_folder(finishes):
    closed: list[bool] = []
    begun, go_on = threading.Event(), threading.Event()

    class Journal:
        def close(self, clean: bool) -> None:
            closed.append(clean)

    def opener(watch: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        if not finishes:
            with pytest.raises(JournalError, match="asked to stop"):
                watch(0.5)
            raise JournalError("stopped")
        return Journal()

    opening = asyncio.create_task(Opening().open(opener))
    await asyncio.to_thread(begun.wait, 30)
    opening.cancel()
    await asyncio.sleep(0)
    assert not opening.done(), "the thread still has the folder"
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert closed == ([False] if finishes else []) and gc.isenabled()
