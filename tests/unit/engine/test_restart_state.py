"""What the life before may have handed out is doubted once."""

from __future__ import annotations

from broker.engine.queue.restart_state import RestartState


def test_a_mark_is_suspected_once():
    state = RestartState()
    state.replay(5)
    assert not state.suspect_up_to(5) and state.suspect_up_to(6)
    state.suspect([(4, 8), (20, 21)])
    assert state.suspects == [(1, 8), (20, 21)]
    state.gone([(1, 2)])
    state.withdrawn((3, 3))
    assert state.settled == [(1, 3)]
    state.looked_at()
    assert (state.settled, state.suspects, state.suspect_to) == ([], [], 6)
