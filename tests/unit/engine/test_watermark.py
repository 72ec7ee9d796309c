"""Before a durable message goes out, the log says that it may have been."""

from __future__ import annotations

from broker.engine.queue.watermark import DeliveryWatermark


def test_a_durable_message_waits_for_a_mark():
    mark = DeliveryWatermark()
    mark.came(5, dispatched=False)
    assert mark.announced > mark.cleared
    mark.ask(8)
    assert mark.asked == 8 and mark.cleared == 0  # on its way is not there
    mark.durable(8)
    assert (mark.asked, mark.marked, mark.cleared) == (0, 8, 8) and mark.announced <= mark.cleared
    mark.came(8, dispatched=False)
    assert mark.announced <= mark.cleared


def test_what_its_own_record_says_to_be_out_needs_no_mark_unless_something_before_it_does():
    mark = DeliveryWatermark()
    mark.came(3, dispatched=True)
    assert mark.cleared == 3
    mark.came(4, dispatched=False)
    mark.came(5, dispatched=True)  # 4 is not cleared, and 5 must not be before it
    assert mark.cleared == 3 and mark.announced == 5


def test_after_an_unclean_end_the_mark_stands_and_after_a_clean_one_it_has_gone():
    for clean, cleared, marked in ((False, 7, 7), (True, 0, 0)):
        mark = DeliveryWatermark()
        mark.replay(7)
        assert mark.restart(9, clean) == 7
        assert (mark.announced, mark.cleared, mark.marked) == (9, cleared, marked)


def test_the_mark_never_falls():
    mark = DeliveryWatermark()
    mark.durable(9)
    mark.ask(4)
    mark.durable(4)  # an older one became durable later
    assert mark.cleared == 9 and mark.asked == 0
