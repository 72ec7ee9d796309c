"""Management requests as an edge finds them: headers and body of a message, and what cannot be carried out at all."""

from __future__ import annotations

import pytest

from broker.core.errors import Code, RefusedError
from broker.edge.requests.management import check, split


def test_headers_are_unescaped_the_first_of_a_name_counts_and_the_body_is_whole():
    message = b"a\\c:1\\n2\nk:first\nk:second\nempty:\n\nbody\n\nwith \0 in it\0"
    assert split(message) == ({"a:": "1\n2", "k": "first", "empty": ""}, b"body\n\nwith \0 in it")


def test_a_request_is_served_where_there_is_somebody_to_and_outside_of_transactions():
    check({"destination": "x"}, True)
    for headers, served, code in (({}, False, Code.BAD_DESTINATION), ({"transaction": "t"}, True, Code.BAD_HEADER)):
        with pytest.raises(RefusedError) as refused:
            check(headers, served)
        assert refused.value.code is code
