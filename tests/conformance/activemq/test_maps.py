"""`transformation` of maps: in the form their reader asks for."""

from __future__ import annotations

import json

import pytest

from broker.core.errors import Code

from ..checks import error

NAME = b"<entry><string>name</string><string>Ada</string></entry>"
TEXT = b"<map>" + NAME + b"<entry><string>age</string><int>36</int></entry></map>"
OBJECT = {"map": {"entry": [{"string": ["name", "Ada"]}, {"string": "age", "int": 36}]}}


@pytest.mark.parametrize("sent", ["jms-map-xml", "jms-map-json"])
@pytest.mark.parametrize("wanted", ["jms-map-xml", "jms-xml", "jms-map-json", "jms-json", ""])
def test_a_map_comes_in_the_form_that_is_asked_for(join, name, sent, wanted):
    sender, reader = join(), join()
    body = TEXT if sent == "jms-map-xml" else json.dumps(OBJECT).encode()
    sender.publish(f"/queue/{name}", body, transformation=sent)
    reader.subscribe(f"/queue/{name}", **({"transformation": wanted} if wanted else {}))
    message = reader.expect("MESSAGE")
    form = {"jms-xml": "jms-map-xml", "jms-json": "jms-map-json", "": sent}.get(wanted, wanted)
    assert message["transformation"] == form
    assert message.body == TEXT if form == "jms-map-xml" else json.loads(message.body) == OBJECT


def test_texts_are_never_changed_and_what_is_no_map_says_so(join, name):
    sender, reader = join(), join()
    reader.subscribe(f"/queue/{name}", transformation="jms-map-xml")
    sender.publish(f"/queue/{name}", b'{"a":1}')
    assert reader.expect("MESSAGE").body == b'{"a":1}'
    sender.publish(f"/queue/{name}", b'{"a":1}', transformation="jms-map-json")
    message = reader.expect("MESSAGE", {"transformation": "jms-map-json"})
    assert message.body == b'{"a":1}' and message["transformation-error"]


@pytest.mark.parametrize("form", ["jms-object-xml", "jms-object-json", "jms-advisory-xml"])
def test_others_are_refused_by_name(join, name, form):
    client = join()
    client.send("SUBSCRIBE", {"destination": f"/queue/{name}", "id": "1", "receipt": "r", "transformation": form})
    error(client, Code.BAD_HEADER, "r")
