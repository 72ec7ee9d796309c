"""What `make abuse` says of steps: which process, which kind, and only of what came while somebody was measured."""

from __future__ import annotations

from tests.abuse.programme.sites import Stepped


def page(quick: int, all_of_them: int, longest: float, step: str = "turn") -> str:
    return (
        f'stomp_step_seconds_bucket{{le="0.005",step="{step}"}} {quick}.0\n'
        f'stomp_step_seconds_bucket{{le="0.02",step="{step}"}} {all_of_them}.0\n'
        f'stomp_step_seconds_bucket{{le="+Inf",step="{step}"}} {all_of_them}.0\n'
        f'stomp_step_longest_seconds{{step="{step}"}} {longest}\n'
    )


def test_a_row_names_the_process_and_the_kind_of_its_longest_step() -> None:
    before, after = Stepped(), Stepped()
    for found, pages in (
        (before, [("owner-0", page(90, 100, 0.5)), ("edge-0", page(10, 10, 0.001, "read"))]),
        (after, [("owner-0", page(180, 200, 0.5)), ("edge-0", page(1010, 1010, 0.004, "read"))]),
    ):
        for process, text in pages:
            found.add(process, text)
    row = after.since(before)
    assert row.longest == (0.02, "owner-0 turn"), "0.5 s were before: it is known that none was longer than its bucket"
    assert row.told() == "owner-0 turn 10 of 100, longest 20"
    assert round(row.long_ones, 1) == round(1000 * 10 / 1100, 1)


def test_a_step_that_is_longer_than_all_before_is_told_as_it_was() -> None:
    before, after = Stepped(), Stepped()
    before.add("edge-0", page(5, 5, 0.001))
    after.add("edge-0", page(5, 6, 0.019))
    after.add("edge-1", page(5, 6, 0.018))
    row = after.since(before)
    assert row.longest == (0.019, "edge-0 turn") and row.told().startswith("edge-0 turn 1 of 1, longest 19")
    assert Stepped().longest == (0.0, "") and Stepped().long_ones == 0
