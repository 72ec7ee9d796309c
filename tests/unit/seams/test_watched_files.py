"""What files hold is taken anew when they change and are good, and only then."""

from __future__ import annotations

import pytest

from broker.seams.watched_files import WatchedFiles


class Files:
    """Two files that must hold the same number."""

    def __init__(self, folder):
        self.paths = [folder / "a", folder / "b"]
        self.heard = []
        self.loads = 0
        self.write("1", "1")
        self.watched = WatchedFiles([str(path) for path in self.paths], self.load, self.heard.append)

    def write(self, *texts):
        for path, text in zip(self.paths, texts, strict=True):
            path.unlink(missing_ok=True)
            path.write_text(text)

    def load(self):
        self.loads += 1
        a, b = (int(path.read_text()) for path in self.paths)
        if a != b:
            raise ValueError("they do not fit")
        return a


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_files_that_stay_are_not_read_again(files):
    files.watched.look()
    assert (files.watched.value, files.loads, files.heard) == (1, 1, [])


def test_new_files_are_taken_and_told_of_once(files):
    files.write("22", "22")
    for _ in range(2):
        files.watched.look()
    assert (files.watched.value, files.loads, files.heard) == (22, 2, [None])


def test_what_is_broken_or_gone_is_told_of_once_and_the_old_stays_until_it_is_good_again(files):
    files.write("22", "333")
    for _ in range(2):
        files.watched.look()
    assert files.watched.value == 1 and [str(error) for error in files.heard] == ["they do not fit"]
    files.paths[0].unlink()
    files.watched.look()
    assert files.watched.value == 1 and isinstance(files.heard[1], FileNotFoundError)
    files.write("333", "333")
    files.watched.look()
    assert files.watched.value == 333 and files.heard[2:] == [None]


def test_a_change_while_they_are_read_is_seen_by_the_next_look(files):
    read = files.load

    def overtaken():
        value = read()
        files.write("44444", "44444")
        return value

    files.watched._load = overtaken
    files.write("333", "333")
    files.watched.look()
    files.watched._load = read
    files.watched.look()
    assert files.watched.value == 44444


def test_what_cannot_be_used_at_first_is_raised(files):
    files.write("1", "22")
    with pytest.raises(ValueError, match="do not fit"):
        WatchedFiles([str(path) for path in files.paths], files.load, files.heard.append)


def test_it_looks_again_and_again_until_it_is_closed(files):
    due = []

    class Handle:
        def cancel(self):
            due.clear()

    class Loop:
        def call_later(self, seconds, call, *args):
            assert seconds == 5.0
            due.append(lambda: call(*args))
            return Handle()

    files.watched.follow(Loop(), 5.0)
    for value in ("22", "333"):
        files.write(value, value)
        due.pop()()
        assert files.watched.value == int(value)
    files.watched.close()
    assert due == []
