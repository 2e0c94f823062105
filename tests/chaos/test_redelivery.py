"""A batch of half a minute whose message may lie unacknowledged for five seconds: another worker gets it, and does nothing.

Half a minute of work, so it is no part of `make test`.
"""

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.integration.worker.limited import IMPATIENT, QUEUE, Stage
from tests.integration.worker.patience import VISIBILITY_SECONDS
from tests.processes import Service, wait_for
from tests.seed import column
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.recipe import Recipe
from worker_app.demo.server import Latency
from worker_app.store.postgres import Postgres

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
RECIPE = Recipe(
    seed=7, repositories=1, pull_requests=40, comments_per_pull=12, issues=1, pushes=2, runs=1, deployments=1
)
ANSWER_SECONDS = 6.0  # of each of five pages
LEASE_SECONDS = "60"


def test_redelivery_of_a_long_batch_meets_a_live_lease_and_is_acknowledged(
    tmp_path: Path, database_url: str, redis_url: str, redis_client: redis.Redis, postgres: Postgres
) -> None:
    service = replace(Service(tmp_path, database_url, redis_url), program=IMPATIENT)

    def held() -> dict[bytes, bytes]:
        found: Any = redis_client.hgetall("unacked")
        return dict(found)

    with FakeGitHub(generate(RECIPE), latency=Latency(ANSWER_SECONDS)) as fake:
        stage = Stage(service, postgres, fake)
        (watched,) = ids = stage.queue(stage.org("acme", fake.token), "review_comments")
        with stage.worker("first", BATCH_LEASE_SECONDS=LEASE_SECONDS) as first:
            wait_for(lambda: stage.rows(ids)[0]["pages"] == 1, "the first page is stored", 40)
            headers = [json.loads(text)[0]["headers"] for text in held().values()]
            assert [(item["eta"], item["expires"]) for item in headers] == [(None, None)]
            os.killpg(first.process.pid, signal.SIGSTOP)  # it renews nothing: neither its message nor its lease
            with stage.worker("second", BATCH_LEASE_SECONDS=LEASE_SECONDS) as second:
                wait_for(lambda: second.ends(watched) == [None], "its message came to another", 4 * VISIBILITY_SECONDS)
                wait_for(lambda: not held(), "that one acknowledged it", 10)
                assert (stage.states(ids), redis_client.llen(QUEUE)) == ({"running"}, 0)
                os.killpg(first.process.pid, signal.SIGCONT)
                wait_for(lambda: stage.states(ids) == {"succeeded"}, "its own worker reads on to the end", 90)
                wait_for(lambda: first.ends(watched) == ["succeeded"], "its execution has ended")
                assert second.ends(watched) == [None]
    (row,) = stage.rows(ids)
    assert (row["attempt"], row["wakes"]) == (0, 1)
    assert row["records"] == len(fake.truth()["acme/api"]["review_comments"])
    read = Counter(entry.path for entry in stage.entries("demo", "/pulls/comments"))
    assert (len(read), set(read.values())) == (row["pages"], {1})
    took = "SELECT extract(epoch FROM finished_at - started_at)::float8 FROM sync_batches"
    assert column(postgres, took)[0] >= 30  # type: ignore[operator]
