"""Problem documents: what each refusal of the broker is in HTTP, and what they say."""

from __future__ import annotations

import pytest

from broker.admin.api.problems import Problem, bad_value, not_made, of_refusal, unknown
from broker.core.errors import BrokerError, Code, ConfigError, RefusedError


def test_a_document_names_the_thing_and_the_fix_where_there_is_one():
    told = Problem(409, "no-cluster", "No cluster", "it is alone", code=7).data("/x")
    assert told == {
        "type": "urn:stampede:problem:no-cluster", "title": "No cluster", "status": 409, "detail": "it is alone",
        "instance": "/x", "code": 7,
    }  # fmt: skip
    assert Problem(409, "a", "b", "c", "do this").data("/x")["fix"] == "do this"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.LOGIN_FAILED, 401), (Code.NO_SUCH_DESTINATION, 404), (Code.BAD_SELECTOR, 400), (Code.DISK_FULL, 507),
        (Code.OWNER_UNAVAILABLE, 503), (Code.MESSAGE_TOO_LARGE, 413), (Code.ADDRESS_FULL, 409), (Code.INTERNAL, 500),
    ],
)  # fmt: skip
def test_what_owners_refuse_has_the_status_that_clients_act_on(code, status):
    found = of_refusal(RefusedError(code, "just so"))
    assert (found.status, found.detail, found.title, found.more["code"]) == (status, "just so", code.text, code.number)
    assert found.name == code.name.lower().replace("_", "-")
    assert of_refusal(RefusedError(code)).detail == code.text


def test_what_is_not_there_may_be_later_and_what_is_wrong_stays_wrong():
    assert (not_made(ConfigError("bad"), "x", "X").status, not_made(BrokerError("away"), "x", "X").status) == (409, 503)
    assert not_made(ConfigError("bad"), "x", "X", "; mend it").fix == "nothing has changed; mend it"


def test_what_a_client_wrote_is_shown_to_a_bound():
    assert len(bad_value("n", "v" * 1000, "a number").detail) < 220
    assert len(unknown("queue", "q" * 1000, "").detail) < 230
    assert (unknown("queue", "q", "f").status, bad_value("n", "v", "f").more) == (404, {"parameter": "n"})
