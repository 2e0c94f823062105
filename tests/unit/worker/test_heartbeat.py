import os
from pathlib import Path
from typing import Any, Self, cast

import pytest
import redis
from structlog.testing import capture_logs

from worker_app.worker import heartbeat
from worker_app.worker.heartbeat import Heartbeat, Intake, ProbeFiles, Watchdog, presence_key

IDLE = Intake(free_slots=4, last_received_at=None)
LIMIT_SECONDS = 300.0


class Broker:
    """Stands for Redis and for a pipeline of it: answers the depths that it was given, or is away."""

    def __init__(self, **depths: int) -> None:
        self.depths = depths
        self.is_away = False
        self.trips: list[list[str]] = []

    def pipeline(self, *, transaction: bool) -> Self:
        assert not transaction
        self.asked: list[str] = []
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set(self, key: str, value: str, *, ex: int) -> None:
        assert ex > 0
        self.asked.append(f"SET {key} {value}")

    def eval(self, script: str, keys: int, *given: object) -> None:
        self.asked.append(f"EVAL {given}")

    def llen(self, queue: str) -> None:
        self.asked.append(f"LLEN {queue}")

    def execute(self) -> list[Any]:
        self.trips.append(self.asked)
        if self.is_away:
            raise redis.ConnectionError("refused")
        return [True, 7, *(self.depths[command.removeprefix("LLEN ")] for command in self.asked[2:])]


class Worker:
    """A worker's heartbeat on a stand-in broker, with a clock of its own."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.broker = broker
        self.intake = IDLE
        self.now = 1000.0
        self.alive = folder / "worker.alive"
        self.fleet: list[int] = []
        self.heartbeat = Heartbeat(
            ProbeFiles(folder, "worker"),
            cast("redis.Redis", broker),
            "worker@a",
            dict,
            intake=lambda: self.intake,
            consumed=tuple(broker.depths),
            watchdog_seconds=LIMIT_SECONDS,
            heard_of=self.fleet.append,
        )
        self.heartbeat.takes_work(True)

    def signs(self, seconds: float) -> int:
        """How often it says that it is alive in the next `seconds`."""
        count = 0
        for _ in range(int(seconds / heartbeat.BEAT_SECONDS)):
            self.now += heartbeat.BEAT_SECONDS
            self.alive.touch()
            os.utime(self.alive, (0, 0))
            self.heartbeat.beat(self.now)
            count += self.alive.stat().st_mtime > 0
        return count


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path, Broker(sync=2, scheduler=1, default=0))


def withheld_after(watchdog: Watchdog, seconds: int, begin: int = 0, intake: Intake = IDLE, **state: Any) -> int | None:
    """The first second within `seconds`, looked at each five, at which `alive` is withheld."""
    given = {"ready": 3, "is_draining": False, "is_redis_answering": True} | state
    for second in range(begin, begin + seconds + 1, 5):
        if watchdog.withholds(float(second), intake, **given):
            return second
    return None


def test_signs_of_life_are_files_of_the_role(tmp_path: Path) -> None:
    files = ProbeFiles(tmp_path / "run", "worker")
    files.alive()
    files.ready(is_ready=True)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["role", "worker.alive", "worker.ready"]
    files.ready(is_ready=False)
    files.ready(is_ready=False)
    assert not (tmp_path / "run/worker.ready").exists()
    assert (tmp_path / "run/role").read_text() == "worker"


def test_folder_that_cannot_be_written_does_not_stop_the_worker(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = ProbeFiles(tmp_path / "file" / "run", "worker")
    files.alive()
    files.ready(is_ready=True)


def test_worker_whose_redis_is_away_for_long_is_not_ready_until_it_is_back(tmp_path: Path) -> None:
    files = ProbeFiles(tmp_path, "worker")
    beat = Heartbeat(files, redis.Redis(port=1), "worker@a", dict)
    beat.takes_work(True)
    assert (tmp_path / "worker.ready").exists()
    beat._heard_at -= heartbeat.CUT_OFF_SECONDS + 1
    beat.takes_work(True)
    assert not (tmp_path / "worker.ready").exists()
    beat._heard_at += heartbeat.CUT_OFF_SECONDS
    beat.takes_work(True)
    assert (tmp_path / "worker.ready").exists()


def test_presence_is_a_key_of_the_node() -> None:
    assert presence_key("worker@a") == "dev-hops/presence/worker@a"


def test_watchdog_withholds_from_a_worker_that_takes_nothing_of_what_waits() -> None:
    assert withheld_after(Watchdog(LIMIT_SECONDS), 1000) == 300


def test_watchdog_counts_from_the_last_message_that_was_received() -> None:
    received = Intake(free_slots=4, last_received_at=120.0)
    assert withheld_after(Watchdog(LIMIT_SECONDS), 1000, intake=received) == 420
    before = Intake(free_slots=4, last_received_at=-5000.0)
    assert withheld_after(Watchdog(LIMIT_SECONDS), 1000, intake=before) == 300


@pytest.mark.parametrize(
    "excuse",
    [
        {"intake": Intake(free_slots=0, last_received_at=None)},
        {"ready": 0},
        {"is_draining": True},
        {"is_redis_answering": False},
    ],
    ids=["full", "nothing waits", "drain", "broker away"],
)
def test_watchdog_is_silent_with_an_excuse_and_counts_anew_after_it(excuse: dict[str, Any]) -> None:
    watchdog = Watchdog(LIMIT_SECONDS)
    assert withheld_after(watchdog, 295) is None
    assert withheld_after(watchdog, 5000, begin=300, **excuse) is None
    assert withheld_after(watchdog, 1000, begin=5305) == 5605


def test_watchdog_that_did_not_look_for_long_counts_anew() -> None:
    watchdog = Watchdog(LIMIT_SECONDS)
    assert withheld_after(watchdog, 200) is None
    assert withheld_after(watchdog, 295, begin=2000) is None


def test_presence_and_depths_of_the_consumed_queues_take_one_round_trip(worker: Worker) -> None:
    worker.heartbeat.beat(worker.now)
    assert worker.broker.trips == [
        [
            "SET dev-hops/presence/worker@a {}",
            "EVAL ('dev-hops/fleet', 'worker@a', 1, 30)",
            "LLEN sync",
            "LLEN scheduler",
            "LLEN default",
        ],
    ]
    assert worker.fleet == [7]


def test_alive_ages_while_work_waits_and_nothing_is_received_and_is_touched_again_after(worker: Worker) -> None:
    with capture_logs() as lines:
        assert worker.signs(LIMIT_SECONDS + 5) == 61
        assert worker.signs(500) == 0
        worker.intake = Intake(free_slots=3, last_received_at=worker.now)
        worker.signs(5)
        assert worker.signs(100) == 20
    withheld, again = lines
    assert (withheld["event"], withheld["log_level"]) == ("watchdog.alive_withheld", "critical")
    assert withheld["queues"] == {"sync": 2, "scheduler": 1}
    assert (withheld["free_slots"], withheld["seconds"]) == (4, 300)
    assert "restarts" in withheld["follows"]
    assert again["event"] == "watchdog.alive_again"


def test_broker_outage_never_withholds_alive(worker: Worker) -> None:
    worker.broker.is_away = True
    assert worker.signs(2000) == 400


def test_broker_outage_within_the_silence_starts_its_time_anew(worker: Worker) -> None:
    assert worker.signs(250) == 50
    worker.broker.is_away = True
    assert worker.signs(100) == 20
    worker.broker.is_away = False
    assert worker.signs(300) == 60


def test_busy_worker_stays_alive_whatever_waits(worker: Worker) -> None:
    worker.intake = Intake(free_slots=0, last_received_at=worker.now)
    assert worker.signs(2000) == 400


def test_draining_worker_stays_alive_whatever_waits(worker: Worker) -> None:
    worker.heartbeat.takes_work(False)
    assert worker.signs(2000) == 400
