from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.gate.clocks import Clock
from worker_app.gate.book import Seen
from worker_app.gate.key import GateKey
from worker_app.gate.windows import FEW_KEYS, Windows

KEY = GateKey("github", "acme", "github.com")
NOW_MS = 1_800_000_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def windows(clock: Clock) -> Windows:
    return Windows(clock)


def left(windows: Windows, *buckets: str) -> float:
    found = windows.closed(KEY, buckets)
    return 0.0 if found is None else found[1]


def seen(cleared: int = 0, **ends_in: int) -> Seen:
    fields = {f"u:{bucket}": str(NOW_MS + milliseconds) for bucket, milliseconds in ends_in.items()}
    return Seen(NOW_MS, cleared, 0, 0, fields)


def key_of(number: int) -> GateKey:
    return GateKey("github", f"org-{number}", "github.com")


def test_window_closes_its_bucket_until_it_is_over(windows: Windows, clock: Clock) -> None:
    windows.note(KEY, "core", 10.0, "primary")
    assert (left(windows, "core"), left(windows, "graphql")) == (10.0, 0.0)
    clock.now += 9.0
    assert left(windows, "core") == 1.0
    clock.now += 1.0
    assert left(windows, "core") == 0.0


def test_window_of_the_whole_key_closes_every_bucket(windows: Windows) -> None:
    windows.note(KEY, "*", 10.0, "secondary")
    assert (left(windows, "core"), left(windows)) == (10.0, 10.0)


def test_window_that_ends_last_is_told(windows: Windows) -> None:
    windows.note(KEY, "*", 5.0, "secondary: slow down", 3)
    windows.note(KEY, "core", 9.0, "primary", 1)
    found = windows.closed(KEY, ("core", "ep.a"))
    assert found is not None
    assert (found[0].bucket, found[0].text, found[0].fails) == ("core", "primary", 1)


def test_window_only_grows(windows: Windows) -> None:
    windows.note(KEY, "core", 10.0, "primary")
    windows.note(KEY, "core", 3.0, "burst")
    assert left(windows, "core") == 10.0
    windows.note(KEY, "core", 12.0, "burst")
    assert left(windows, "core") == 12.0


def test_window_that_redis_tells_is_counted_from_before_the_question(windows: Windows, clock: Clock) -> None:
    asked_at = clock.now
    clock.now += 0.1
    windows.saw(KEY, seen(core=5000), asked_at)
    assert left(windows, "core") == pytest.approx(4.9)


def test_window_is_news_for_redis_until_redis_tells_of_it(windows: Windows, clock: Clock) -> None:
    windows.note(KEY, "core", 10.0, "primary")
    assert [(item.bucket, item.left_ms, item.is_told) for item in windows.known(KEY)] == [("core", 10_000, False)]
    windows.saw(KEY, seen(core=9990), clock.now)
    assert [(item.bucket, item.left_ms, item.is_told) for item in windows.known(KEY)] == [("core", 10_000, True)]


def test_windows_that_are_over_are_not_given_back(windows: Windows, clock: Clock) -> None:
    windows.note(KEY, "core", 10.0, "primary")
    windows.note(KEY, "*", 20.0, "secondary")
    clock.now += 15.0
    assert [item.bucket for item in windows.known(KEY)] == ["*"]
    clock.now += 15.0
    assert windows.known(KEY) == ()
    assert windows.keys() == []


def test_clear_makes_a_process_forget_all_of_the_key_and_nothing_of_others(windows: Windows) -> None:
    other = key_of(1)
    windows.note(KEY, "core", 10.0, "primary")
    windows.note(other, "core", 10.0, "primary")
    assert windows.heard(KEY, NOW_MS)
    assert (left(windows, "core"), windows.epoch(KEY)) == (0.0, NOW_MS)
    assert windows.closed(other, ("core",)) is not None


def test_answer_from_before_a_clear_brings_nothing_back(windows: Windows, clock: Clock) -> None:
    windows.heard(KEY, NOW_MS)
    windows.saw(KEY, seen(NOW_MS - 1, core=5000), clock.now)
    assert left(windows, "core") == 0.0
    windows.saw(KEY, seen(NOW_MS, core=5000), clock.now)
    assert left(windows, "core") == 5.0


def test_only_one_caller_a_second_looks(windows: Windows, clock: Clock) -> None:
    assert [windows.may_look(KEY) for _ in range(3)] == [True, False, False]
    clock.now += 0.5
    assert not windows.may_look(KEY)
    assert windows.may_look(KEY, within=0.01)
    clock.now += 1.0
    assert windows.may_look(KEY)


def test_windows_of_many_keys_do_not_pile_up(windows: Windows, clock: Clock) -> None:
    for number in range(20 * FEW_KEYS):
        windows.note(key_of(number), "core", 10.0, "primary")
        windows.may_look(key_of(number))
        clock.now += 0.1
    assert len(windows._of) <= FEW_KEYS + 1
    assert len(windows._looked_at) <= FEW_KEYS + 1


def test_windows_can_be_read_while_others_change_them(windows: Windows, clock: Clock) -> None:
    def change(first: int) -> None:
        for number in range(300):
            windows.note(KEY, f"ep.{(first + number) % 5}", number % 3, "burst")
            clock.now += 0.5
            windows.known(KEY)
            windows.closed(KEY, ("ep.0", "ep.1", "ep.2"))
            windows.heard(KEY, number)
            windows.keys()

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(change, first) for first in range(4)]:
            done.result(20)
