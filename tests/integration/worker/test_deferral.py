"""Limits met by real workers: what waits lies in Postgres and not in a slot, is read once, and nobody else asks meanwhile."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime
from itertools import count
from uuid import UUID

import pytest

from tests.integration.worker.limited import HOST, IMPATIENT, QUEUE, Stage
from tests.integration.worker.patience import VISIBILITY_SECONDS
from tests.processes import Service, wait_for
from worker_app import runtime, settings
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.limits import Rules
from worker_app.demo.recipe import Recipe
from worker_app.demo.server import Latency
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.store.postgres import Postgres

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

SHUT_SECONDS = VISIBILITY_SECONDS + 1  # longer than a message may lie unacknowledged
HOUR = 3600
SLOTS = 4
LONG = Recipe(seed=7, repositories=1, pull_requests=40, comments_per_pull=12, issues=1, pushes=2, runs=1, deployments=1)
MANY = Recipe(seed=8, repositories=12, pull_requests=2, comments_per_pull=2, issues=2, pushes=2, runs=2, deployments=2)
DATASETS = ("review_comments", "pipeline_runs")  # two batches of each repository

Staged = Callable[..., Stage]


@pytest.fixture
def staged(service: Service, postgres: Postgres) -> Iterator[Staged]:
    """Makes the stage of a test: `staged(recipe, **options of FakeGitHub)`."""
    with ExitStack() as ends:

        def make(recipe: Recipe, **options: object) -> Stage:
            fake = ends.enter_context(FakeGitHub(generate(recipe), **options))  # type: ignore[arg-type]
            return Stage(replace(service, program=IMPATIENT), postgres, fake)

        yield make


def shut(fake: FakeGitHub, credential: str, seconds: float) -> None:
    """Refuse whatever a credential asks for from now on; the caller holds the lock of the world."""
    fake.service.limits.close(credential, "*", time.time() + seconds, time.time())


def shut_behind(fake: FakeGitHub, path: str, number: int) -> None:
    """Answer the `number`-th request for a path, and refuse what comes after it."""
    seen = count(1)

    def look(request: object) -> None:
        if getattr(request, "path", "") == path and next(seen) == number:
            shut(fake, "demo", SHUT_SECONDS)

    fake.before_each_answer(look)


def require_read_once(stage: Stage, batch_id: UUID) -> None:
    """Every page was read once, one request was refused, and nobody asked before the time was over."""
    (row,) = stage.rows([batch_id])
    assert (row["state"], row["attempt"]) == ("succeeded", 0)
    assert row["records"] == len(stage.fake.truth()["acme/api"]["review_comments"])
    asked = stage.entries("demo", "/pulls/comments")
    read = Counter(entry.path for entry in asked if not entry.is_refused)
    assert (len(read), set(read.values())) == (row["pages"], {1})
    assert [entry.is_refused for entry in stage.entries("demo")].count(True) == 1
    assert [(episode.refused, episode.late) for episode in stage.fake.episodes] == [(1, 0)]


@pytest.fixture
def long(staged: Staged) -> Stage:
    """Five pages of one list, whose provider refuses after the second and longer than a message may lie unacknowledged."""
    stage = staged(LONG, rules=Rules(retry_after=SHUT_SECONDS, renews=True))
    shut_behind(stage.fake, "/graphql", 2)
    return stage


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_s19_batch_waits_longer_than_a_message_may_and_each_execution_is_one(long: Stage, pool: str) -> None:
    (watched,) = ids = long.queue(long.org("acme", long.fake.token), "review_comments")
    with long.worker("w", pool) as worker:
        long.wait_for_states(ids, "deferred")
        (row,) = long.rows(ids)
        assert (row["attempt"], row["deferrals"], row["pages"], row["lease_owner"]) == (0, 1, 2, None)
        assert row["defer_reason"]["gate"] == f"github on {HOST}"
        long.wait_for_states(ids, "succeeded")
        wait_for(lambda: len(worker.ends(watched)) == 2, "both executions have ended")
    assert worker.ends(watched) == ["deferred", "succeeded"]
    require_read_once(long, watched)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=["sigterm", "sigkill"])
def test_deferral_outlives_the_worker_that_met_the_limit(long: Stage, ending: signal.Signals) -> None:
    (watched,) = ids = long.queue(long.org("acme", long.fake.token), "review_comments")
    with long.worker("first") as first:
        long.wait_for_states(ids, "deferred")
        os.killpg(first.process.pid, ending)
        assert first.process.wait(timeout=10) == (0 if ending is signal.SIGTERM else -signal.SIGKILL)
    with long.worker("second") as second:
        long.wait_for_states(ids, "succeeded")
        wait_for(lambda: "succeeded" in second.ends(watched), "its execution has ended")
    assert [end for end in second.ends(watched) if end] == ["succeeded"]
    require_read_once(long, watched)


def test_drain_ends_a_sleep_in_the_gate_and_gives_the_batch_back(long: Stage) -> None:
    made = long.org("acme", long.fake.token)
    with long.worker("w", WORKER_DRAIN_SECONDS="20") as worker, closing(Gate.from_url(long.service.redis_url)) as gate:
        gate.backoff(GateKey("github", str(made[0].org.id), HOST), 4.5, reason="secondary")
        ids = long.queue(made, "review_comments")
        long.wait_for_states(ids, "running")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(timeout=15) == 0
    assert [(row["state"], row["attempt"], row["lease_owner"]) for row in long.rows(ids)] == [("queued", 0, None)]
    assert long.entries("demo") == []  # it was the drain that ended the sleep, not the window


@pytest.mark.parametrize(("slots", "seconds"), [(1, 1.0), (None, 5.0)], ids=["child of prefork", "command"])
def test_limit_holds_the_only_slot_of_a_process_for_a_second(
    service: Service, postgres: Postgres, slots: int | None, seconds: float
) -> None:
    chosen = settings.load(service.environment("none"))
    with closing(runtime.connections(chosen, postgres, slots=slots)) as connections:
        assert connections.most_sleep_seconds == seconds


def test_s15_hour_of_one_organisation_holds_no_slot_while_others_are_served(staged: Staged) -> None:
    tokens = {name: f"ghp_{name}" for name in ("alone", "beside", "blocked")}
    stage = staged(MANY, tokens=tokens, rules=Rules(retry_after=HOUR), latency=Latency(0.1))
    made = {name: stage.org(name, token) for name, token in tokens.items()}
    with stage.worker("w", slots=SLOTS) as worker:
        known = stage.queue([made["alone"].pop(), made["beside"].pop()], "review_comments")  # now their quotas are
        stage.wait_for_states(known, "succeeded")
        alone = stage.queue(made["alone"], *DATASETS)
        stage.wait_for_states(alone, "succeeded")
        with stage.fake.world.lock:
            shut(stage.fake, "blocked", HOUR)
        pairs = [stage.queue(pair, *DATASETS) for pair in zip(made["blocked"], made["beside"], strict=False)]
        blocked, beside = ([batch_id for pair in pairs for batch_id in pair[at : at + 2]] for at in (0, 2))
        stage.wait_for_states(beside, "succeeded")
        stage.wait_for_states(blocked, "deferred")
        wait_for(lambda: len(worker.held_seconds(blocked)) == len(blocked), "their executions have ended")
    assert max(worker.held_seconds(blocked)) < 5
    assert {(row["attempt"], row["deferrals"]) for row in stage.rows(blocked)} == {(0, 1)}
    assert len(stage.entries("blocked")) <= SLOTS
    assert done_within(stage, beside, spans(stage, alone)[-1]) >= len(alone) // 2


def spans(stage: Stage, ids: Sequence[UUID]) -> list[float]:
    """When each batch was done, in seconds since the first of them began; shortest first."""
    rows = stage.rows(ids)
    began = min(datetime.fromisoformat(row["started_at"]) for row in rows)
    return sorted((datetime.fromisoformat(row["finished_at"]) - began).total_seconds() for row in rows)


def done_within(stage: Stage, ids: Sequence[UUID], seconds: float) -> int:
    """How many batches were done in so many seconds."""
    return sum(span <= seconds for span in spans(stage, ids))


def test_refusal_of_one_worker_keeps_the_other_from_asking(staged: Staged) -> None:
    stage = staged(MANY, rules=Rules(retry_after=SHUT_SECONDS, renews=True))
    first, *others = stage.org("acme", stage.fake.token)
    with (
        stage.worker("refused", CELERY_QUEUES=QUEUE) as refused,
        stage.worker("told", CELERY_QUEUES="sync") as told,
    ):
        with stage.fake.world.lock:
            shut(stage.fake, "demo", SHUT_SECONDS)
        ids = stage.queue([first], "pipeline_runs")
        stage.wait_for_states(ids, "deferred")
        shares = stage.queue(others[:2], *DATASETS), stage.queue(others[2:4], *DATASETS, queue="sync")
        for share in shares:
            wait_for(lambda ids=share: "succeeded" in stage.states(ids), "one is done")  # type: ignore[misc]
    assert [(episode.refused, episode.late) for episode in stage.fake.episodes] == [(1, 0)]
    assert {row["attempt"] for row in stage.rows([*ids, *shares[0], *shares[1]])} == {0}
    for worker in (refused, told):
        assert any(line["event"] == "batch.deferred" and not line["is_claimed"] for line in worker.lines)
