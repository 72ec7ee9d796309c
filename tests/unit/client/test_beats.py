"""Heart-beat arithmetic."""

import pytest

from broker.client import ClientError
from broker.client.beats import Beats


def test_the_slower_side_sets_each_interval():
    beats = Beats((1000, 4000), "2000,500")
    assert (beats.send_every, beats.expect_every) == (1.0, 4.0)
    assert Beats((1000, 1000), "2000,3000").send_every == 3.0


@pytest.mark.parametrize(("mine", "theirs"), [((0, 0), "5,5"), ((5, 5), "0,0"), ((5, 5), None)])
def test_zero_on_either_side_means_none(mine, theirs):
    beats = Beats(mine, theirs)
    assert beats.tick == 0
    assert not beats.due(1e9, 0) and not beats.overdue(1e9, 0)


def test_a_beat_is_due_early_enough_whenever_one_looks():
    beats = Beats((1000, 0), "0,1000")
    now = last_sent = 0.0
    gaps = []
    while now < 20:
        now += beats.tick
        if beats.due(now, last_sent):
            gaps.append(now - last_sent)
            last_sent = now
    assert max(gaps) <= 0.75 and len(gaps) >= 20


def test_silence_is_tolerated_up_to_twice_the_interval():
    beats = Beats((0, 1000), "1000,0")
    assert not beats.overdue(1.9, 0)
    assert beats.overdue(2.1, 0)


@pytest.mark.parametrize("text", ["1", "a,b", "-1,2", "1,2,3", "1, 2"])
def test_malformed_header_of_the_server(text):
    with pytest.raises(ClientError, match="heart-beat"):
        Beats((1, 1), text)
