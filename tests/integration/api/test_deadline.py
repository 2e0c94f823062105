import gevent
import pytest

from worker_app import errors
from worker_app.api import deadline


def test_deadline_ends_a_wait_and_names_the_store() -> None:
    with pytest.raises(errors.StoreAway, match=r"Redis did not answer within 0\.01 s"), deadline.within(0.01, "Redis"):
        gevent.sleep(10)


def test_deadline_lets_a_quick_block_pass() -> None:
    with deadline.within(0.01, "Redis"):
        pass
    gevent.sleep(0.02)


def test_deadline_leaves_one_around_it_alone() -> None:
    with pytest.raises(errors.StoreAway, match="outer"), deadline.within(0.01, "outer"), deadline.within(5, "inner"):
        gevent.sleep(10)
