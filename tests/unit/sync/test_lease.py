import threading

import pytest

from worker_app import errors
from worker_app.sync import lease

DEADLINE = 5.0


def test_lease_is_renewed_until_the_block_ends() -> None:
    renewed, calls = threading.Semaphore(0), []

    def renew() -> bool:
        calls.append(1)
        renewed.release()
        return True

    with lease.kept(renew, 0.05) as lost:
        for _ in range(3):
            assert renewed.acquire(timeout=DEADLINE)
        assert not lost.is_set()
    count = len(calls)
    assert not renewed.acquire(timeout=0.05) or len(calls) <= count + 1


def test_lease_taken_over_by_another_is_reported() -> None:
    with lease.kept(lambda: False, 0.05) as lost:
        assert lost.wait(DEADLINE)


def test_renewal_that_fails_once_is_no_loss() -> None:
    answers, renewed = [errors.StoreAway("away")], threading.Event()

    def renew() -> bool:
        if answers:
            raise answers.pop()
        renewed.set()
        return True

    with lease.kept(renew, 0.05) as lost:
        assert renewed.wait(DEADLINE)
        assert not lost.is_set()


def test_error_of_the_block_comes_out() -> None:
    with pytest.raises(ZeroDivisionError), lease.kept(lambda: True, 60):
        raise ZeroDivisionError
