"""The report's page: nothing from elsewhere, nothing of a message's that is not escaped."""

from __future__ import annotations

from broker_pipeline.jobs.page import page


def made(address: str, hours: int) -> dict:
    rows = [
        {"address": address, "hour": f"2026-11-24 {n:02}:00", "messages": n * 100, "bytes": n * 5000, "slots": 1}
        for n in range(hours)
    ]
    late = {"address": address, "hour": "2026-11-24 01:00", "event": "ACKED", "count": 3, "ms": [1, 20, 300]}
    dead = {"address": address, "reason": "<b>", "count": 1, "samples": ["1-1", "1-2"]}
    return {
        "folder": "lake", "manifests": 3, "hours": rows, "latencies": [late, late | {"ms": None}], "events": [],
        "dead_letters": [dead], "unusual": [], "fates": [], "slots": [], "groups": [],
        "backlog": [{"address": address, "hour": row["hour"], "waiting": 0} for row in rows],
        "growth": [{"days": 1, "bytes": 2, "bytes_per_day": 2, "free_bytes": 9, "days_until_full": 4}],
    }  # fmt: skip


def test_everything_is_on_the_page_and_escaped():
    text = page(made("<script>x</script>", 24))
    assert "<script" not in text and "<b>" not in text and "http" not in text
    assert (
        text.count("<rect") == 48
        and "27,600 messages of 1 address, 3 runs" in text
        and "1-1, 1-2" in text
        and ">300<" in text
    )


def test_numbers_are_numbers_also_where_the_first_row_has_none():
    given = made("a", 1)
    given["fates"] = [{"address": "a", "acked": None}, {"address": "b", "acked": 1500}]
    assert '<td class="n"></td>' in page(given) and '<td class="n">1,500</td>' in page(given)


def test_an_archive_without_anything_has_a_page():
    assert page(made("a", 0)).count("None.") == 6


def test_where_nothing_was_acknowledged_no_plots_are_promised():
    given = made("a", 2)
    given["latencies"] = []
    assert "Percentiles" in page(made("a", 2)) and "Percentiles" not in page(given)
