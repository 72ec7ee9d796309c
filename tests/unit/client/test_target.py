"""URLs of the client."""

import pytest

from broker.client import ClientError
from broker.client.target import parse


@pytest.mark.parametrize(
    ("url", "host", "port", "vhost"),
    [
        ("stomp://h", "h", 61613, "h"),
        ("stomp+ssl://h", "h", 61612, "h"),
        ("ws://h/ws", "h", 80, "h"),
        ("wss://h:1/ws?a=b", "h", 1, "h"),
        ("stomp://[::1]:7/v%2Fh", "::1", 7, "v/h"),
    ],
)
def test_parts_and_defaults(url, host, port, vhost):
    target = parse(url)
    assert (target.host, target.port, target.vhost) == (host, port, vhost)


def test_login_is_percent_decoded_and_never_shown():
    target = parse("stomp://us%40er:p%3Ass%2Fword@h:1")
    assert (target.login, target.passcode) == ("us@er", "p:ss/word")
    assert "word" not in repr(target) and "word" not in str(target)


def test_text_of_a_target_is_a_url_again():
    assert str(parse("ws://[::1]:8/ws?a=b")) == "ws://[::1]:8/ws?a=b"


@pytest.mark.parametrize("url", ["localhost:61613", "http://h", "stomp://", "stomp://h:notaport", "stomp://h:99999"])
def test_nonsense_is_refused(url):
    with pytest.raises(ClientError, match="bad URL"):
        parse(url)
