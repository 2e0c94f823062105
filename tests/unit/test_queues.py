import re
from pathlib import Path

import pytest

from worker_app import fleets, queues, store


def test_every_queue_has_exactly_one_fleet() -> None:
    assert len(set(queues.ALL_QUEUES)) == len(queues.ALL_QUEUES)
    assert all(len(fleets.consuming(fleets.BUILT_IN, queue)) == 1 for queue in queues.ALL_QUEUES)
    assert fleets.consuming(fleets.BUILT_IN, "typo") == ()


def test_every_provider_has_a_queue_that_is_consumed() -> None:
    assert {queues.provider_queue(name) for name in queues.PROVIDERS} <= set(queues.ALL_QUEUES)
    with pytest.raises(ValueError, match="bitbucket"):
        queues.provider_queue("bitbucket")


def test_every_task_travels_on_a_queue_that_is_consumed() -> None:
    assert set(queues.TASK_QUEUES.values()) <= set(queues.ALL_QUEUES)


def test_every_statement_sends_a_task_to_its_own_queue() -> None:
    statements = (Path(str(store.__file__)).parent / "sql").glob("*.sql")
    named = [
        (path.stem, task, queue)
        for path in statements
        for task, queue in re.findall(r"'(\w+)', '([\w.]+)'\)", path.read_text(encoding="utf-8"))
        if task in queues.TASK_QUEUES
    ]
    assert len(named) > 15
    assert [item for item in named if queues.TASK_QUEUES[item[1]] != item[2]] == []
