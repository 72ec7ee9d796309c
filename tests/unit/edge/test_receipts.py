"""Receipts leave in frame order whatever order the owners answer in."""

from broker.edge.session.receipts import Answers


def test_answers_in_order_pass_straight_through():
    answers = Answers()
    first, second = answers.ask([b"a"]), answers.ask([b"b", b"c"])
    assert answers.done(first) == ([b"a"], [])
    assert answers.done(second) == ([b"b", b"c"], [])
    assert answers.quiet


def test_an_early_answer_waits_for_the_ones_before_it():
    answers = Answers()
    first, second, third = answers.ask([b"a"]), answers.ask([b"b"]), answers.ask([b"c"])
    assert answers.done(third) == ([], [])
    assert answers.done(second) == ([], [])
    assert answers.done(first) == ([b"a", b"b", b"c"], [])


def test_callbacks_come_after_everything_before_them():
    answers, told = Answers(), []
    first = answers.ask([b"a"])
    last = answers.ask([b"bye"], lambda: told.append("left"))
    assert answers.done(last) == ([], [])
    ids, thens = answers.done(first)
    assert ids == [b"a", b"bye"] and told == []
    for then in thens:
        then()
    assert told == ["left"]


def test_when_quiet_waits_for_what_is_open_now_only():
    answers, told = Answers(), []
    answers.when_quiet(lambda: told.append("at once"))
    first = answers.ask([b"a"])
    answers.when_quiet(lambda: told.append("after a"))
    answers.ask([b"later"])
    assert told == ["at once"]
    for then in answers.done(first)[1]:
        then()
    assert told == ["at once", "after a"]


def test_receipts_of_frames_that_joined_a_request():
    answers = Answers()
    seq = answers.ask([b"a"])
    answers.more(seq, [b"b"])
    assert answers.first_receipt(seq) == b"a"
    assert answers.done(seq) == ([b"a", b"b"], [])
    assert answers.first_receipt(seq) is None


def test_what_failed_takes_its_turn_and_ends_the_answers():
    answers, told = Answers(), []
    first, failed, later = answers.ask([b"a"]), answers.ask([b"b"]), answers.ask([b"c"])
    assert answers.done(later) == ([], [])
    answers.instead(failed, lambda: told.append("error"))
    assert answers.done(failed) == ([], [])
    ids, thens = answers.done(first)
    assert ids == [b"a"] and len(thens) == 1
    thens[0]()
    assert told == ["error"]
    assert answers.done(answers.ask([b"d"])) == ([], [])


def test_every_part_that_is_refused_names_the_receipt_of_its_frame():
    """In a cluster the parts' answers come in any order: the last part, which has the receipt, may be refused first."""
    answers, named = Answers(), []
    first, last = answers.ask([]), answers.ask([b"a"])
    for seq in (last, first):
        named.append(answers.first_receipt(seq))
        answers.instead(seq, lambda: None)
    assert named == [b"a", b"a"]
    assert answers.done(last) == ([], [])
    assert answers.done(first)[0] == []
