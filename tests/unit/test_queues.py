import pytest

from worker_app import queues


def test_every_queue_has_exactly_one_fleet() -> None:
    assert len(set(queues.ALL_QUEUES)) == len(queues.ALL_QUEUES)
    assert all(queues.fleet_of(queue) for queue in queues.ALL_QUEUES)
    assert queues.fleet_of("typo") is None


def test_every_provider_has_a_queue_that_is_consumed() -> None:
    assert {queues.provider_queue(name) for name in queues.PROVIDERS} <= set(queues.ALL_QUEUES)
    with pytest.raises(ValueError, match="bitbucket"):
        queues.provider_queue("bitbucket")


def test_every_task_travels_on_a_queue_that_is_consumed() -> None:
    assert set(queues.TASK_QUEUES.values()) <= set(queues.ALL_QUEUES)
