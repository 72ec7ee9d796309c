"""Options of the sink: refused by name, before a row has left."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", "4.1")

from broker_pipeline.datasource.sink import write_options
from broker_pipeline.errors import PipelineError

GIVEN = {"url": "stomp://h:1", "destination": "/queue/a"}


@pytest.mark.parametrize(
    ("given", "columns", "why"),
    [
        ({"destination": ""}, ["body"], "say where to"),
        ({}, ["text"], "no column body"),
        ({"idColumn": "id"}, ["body"], "no column 'id'"),
        ({"window": "many"}, ["body"], "are numbers"),
        ({"window": "0"}, ["body"], "at least 1"),
        ({"rate": "-1"}, ["body"], "at least 0"),
        ({"atomic": "all"}, ["body"], "none of none, task, batch"),
        ({"atomic": "task", "rate": "5"}, ["body"], "option rate cannot divide"),
        ({"atomic": "batch", "idColumn": "id"}, ["body", "id"], "option idColumn cannot divide"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, columns, why):
    with pytest.raises(PipelineError, match=why):
        write_options(GIVEN | given, columns)


def test_options_may_be_written_in_any_case_and_a_write_has_an_id_of_its_own():
    first, second = (write_options(GIVEN | {"WINDOW": "7", "idcolumn": "id"}, ["value", "id"]) for _ in range(2))
    assert (first.window, first.id_column, first.destination) == (7, "id", "/queue/a")
    assert first.write_id and first.write_id != second.write_id
    column = write_options({"url": "stomp://h:1", "writeId": "w"}, ["body", "destination"])
    assert (column.destination, column.write_id, column.window) == ("", "w", 500)
