"""How an archive divides its work."""

from __future__ import annotations

import pytest
from broker_pipeline.jobs.archive import _items_of_a_task


@pytest.mark.parametrize(
    ("items", "cores", "of_a_task"),
    [(0, 2, 1_000), (3_000, 4, 1_000), (100_000, 2, 25_000), (100_001, 2, 25_001), (9_000_000, 2, 200_000)],
)
def test_every_core_has_work_though_an_item_may_be_many_messages(items: int, cores: int, of_a_task: int) -> None:
    end = {"1": {"o": 5 + items, "e": 1}, "2": {"o": 9, "e": 1}}
    assert _items_of_a_task({"1": {"o": 5, "e": 1}}, end, cores) == of_a_task
