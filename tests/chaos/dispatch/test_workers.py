"""Whole workers under `kill -9` at random moments: beat, four gevent workers and a heavy one over plain git repositories."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.chaos.dispatch import judge
from tests.chaos.dispatch.load import Load
from tests.chaos.dispatch.monitor import Monitor
from tests.processes import DEADLINE, Service, wait_for
from tests.repositories import generate
from tests.seed import column

pytestmark = pytest.mark.integration
WORKERS = ("w0", "w1", "w2", "w3")
KILLS = 30
LIFE_SECONDS = (1.0, 6.0)  # of a process that will be killed, its start counted
BEAT_KILLS = 2
ORGS = 4
SOURCES = 3
COMMITS = 400
MOST_OPEN = 30
LONG_AGO_SECONDS = 4000  # more than the visibility timeout


@pytest.fixture
def service(tmp_path: Path, database_url: str, redis_url: str) -> Service:
    return Service(tmp_path, database_url, redis_url)


class Role:
    """One process that is started again whenever it was killed."""

    def __init__(self, service: Service, name: str, *arguments: str) -> None:
        self.service = service
        self.name = name
        self.arguments = arguments
        self.killed = 0
        self.stack = ExitStack()
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        self.born_at = time.monotonic()
        return self.stack.enter_context(self.service.running(self.name, *self.arguments))

    def kill(self) -> None:
        """End it, and start the next one at once."""
        assert self.process.poll() is None, self.service.log(self.name)
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.wait(timeout=DEADLINE) == -signal.SIGKILL
        self.killed += 1
        self.stack.close()
        self.process = self._start()


@contextmanager
def roles(service: Service) -> Iterator[dict[str, Role]]:
    worker = ("worker", "--concurrency", "4", "--name")
    found = {name: Role(service, name, *worker, name) for name in WORKERS}
    found["h"] = Role(service, "h", "worker", "--fleet", "worker-heavy", "--concurrency", "2")
    found["b"] = Role(service, "b", "beat")
    try:
        yield found
    finally:
        for role in found.values():
            role.stack.close()


def age_what_dead_workers_held(client: redis.Redis) -> None:
    """What a worker had taken and not begun comes back after five minutes: let them pass."""
    held: Any = client.zrange("unacked_index", 0, -1, withscores=True)
    for tag, score in held:
        client.zadd("unacked_index", {tag: score - LONG_AGO_SECONDS}, xx=True)


@pytest.mark.timeout(300)
def test_whole_workers_killed_at_random_lose_and_double_nothing(
    load: Load, service: Service, redis_client: redis.Redis
) -> None:
    chance = random.Random(3)
    paths = [service.folder / f"r{number}" for number in range(ORGS * SOURCES)]
    for number, path in enumerate(paths):
        generate(path, commits=COMMITS, seed=number)
    orgs = [
        load.organisation(f"org-{number}", paths=paths[number * SOURCES : (number + 1) * SOURCES])
        for number in range(ORGS)
    ]
    monitor = Monitor(service.redis_url)
    with roles(service) as every:
        doomed = [chance.choice((*WORKERS, "h")) for _ in range(KILLS)] + ["b"] * BEAT_KILLS
        chance.shuffle(doomed)
        moments = [chance.uniform(*LIFE_SECONDS) for _ in doomed]

        def look() -> bool:
            if doomed:
                if judge.open_runs(load) < MOST_OPEN:
                    load.some(orgs, 2)
                role = every[doomed[0]]
                if time.monotonic() - role.born_at >= moments[0]:
                    role.kill()
                    del doomed[0], moments[0]
                return False
            age_what_dead_workers_held(redis_client)
            return judge.is_settled(load)

        try:
            wait_for(look, "everything was killed and everything is done", 270)
        except AssertionError as error:
            states = column(load.postgres, "SELECT kind || state || count(*) FROM sync_runs GROUP BY kind, state")
            raise AssertionError(f"{len(doomed)} kills to come; {states}; {service.log('w0')[-3000:]}") from error
        killed = Counter({name: role.killed for name, role in every.items()})
    monitor.close()
    assert killed.total() == KILLS + BEAT_KILLS
    judge.check_slots(load)
    judge.check_runs(load)
    stored = column(load.postgres, "SELECT count(*) FROM commits GROUP BY org_id, source_id")
    read = column(load.postgres, "SELECT DISTINCT source_id FROM sync_batches")
    assert stored == [COMMITS] * len(read)
    counted = "SELECT sum(records)::bigint FROM sync_batches GROUP BY source_id"
    assert set(column(load.postgres, counted)) == {
        COMMITS
    }  # the first run of a source reads it, the others find nothing new
    assert len(monitor.tags) >= 4 * len(load.slots)  # plan, run a batch, finish, compute
    assert monitor.doubled <= judge.MOST_DUPLICATES * killed.total()
    judge.say(f"{killed.total()} kills of {dict(killed)}, {len(load.slots)} slots, {monitor.doubled} messages doubled")
