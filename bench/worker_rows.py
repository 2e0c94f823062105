"""The rows of the worker benchmark: what is measured, at which size, and what ours must reach.

The limits come from the profile: what an ideal pool needs and a fifth more, or what a person who runs a fleet counts on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench import worker_faults, worker_footprint, worker_speed
from bench.worker_report import Figure, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: `measure(stage, kind, **sizes)` gives a value for each of the figures.

    `setting` names the sizes in braces. `peers` do the same work elsewhere: `peer(stage, **sizes)`, with the sizes of
    `peer_sizes` instead where they have them; with the small sizes only where `has_quick_peers`. `is_waiting` says that it
    computes next to nothing, so that others may run at the same time. `is_durable` keeps the data of its Redis over a restart.
    """

    name: str
    setting: str
    measure: Callable[..., Values]
    sizes: Mapping[str, Any]
    quick: Mapping[str, Any]
    figures: tuple[Figure, ...]
    peers: Mapping[str, Callable[..., Values]] = field(default_factory=dict)
    peer_sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    has_quick_peers: bool = False
    is_waiting: bool = False
    is_durable: bool = False

    def peers_of(self, *, is_quick: bool) -> Mapping[str, Callable[..., Values]]:
        """The peers that take part."""
        return {} if is_quick and not self.has_quick_peers else self.peers

    def sizes_of(self, *, is_quick: bool) -> dict[str, Any]:
        """All sizes, the small ones where they are asked for."""
        return {**self.sizes, **(self.quick if is_quick else {})}


def _seconds(promise: str, limit: float | None, quick_limit: float | None = None) -> Figure:
    return Figure(
        key="seconds", promise=promise, unit="s", better="lower", limit=limit, quick_limit=quick_limit
    )  # fmt: skip


def _none(key: str, promise: str, unit: str) -> Figure:
    return Figure(key=key, promise=promise, unit=unit, better="lower", limit=0)


BURSTS = (
    Row(
        name="burst-autoscale",
        setting="{count} tasks of {seconds} s at once, autoscale {autoscale[0]},{autoscale[1]}",
        measure=worker_speed.burst,
        sizes={"count": 400, "seconds": 0.2, "autoscale": (20, 2), "limit_seconds": 60},
        quick={"count": 60, "limit_seconds": 8},
        figures=(_seconds("a burst is worked off at full width", 6.2, 1.6),),
    ),
    Row(
        name="burst-to-max",
        setting="{count} tasks of {seconds} s at once, autoscale {most},{least}",
        measure=worker_speed.burst_to_max,
        sizes={"count": 60, "seconds": 3.0, "most": 20, "least": 2, "limit_seconds": 30},
        quick={"count": 40, "limit_seconds": 5},
        figures=(_seconds("all slots run soon after a burst", 2.0),),
        is_waiting=True,
    ),
    Row(
        name="burst-0.1",
        setting="{count} tasks of {seconds} s at once, {slots} slots",
        measure=worker_speed.burst,
        sizes={"count": 400, "seconds": 0.1, "slots": 20, "limit_seconds": 90},
        quick={"count": 60, "limit_seconds": 8},
        figures=(_seconds("no idle slot while tasks wait, short tasks", 3.0, 1.0),),
    ),
    Row(
        name="burst-0.2",
        setting="{count} tasks of {seconds} s at once, {slots} slots",
        measure=worker_speed.burst,
        sizes={"count": 600, "seconds": 0.2, "slots": 20, "limit_seconds": 130},
        quick={"count": 60, "limit_seconds": 8},
        figures=(_seconds("no idle slot while tasks wait", 6.9, 1.3),),
        peers={
            "Celery prefork 4": lambda stage, **sizes: worker_speed.prefork(stage, worker_speed.burst, **sizes),
            "Celery threads 20": lambda stage, **sizes: worker_speed.threads(stage, worker_speed.burst, **sizes),
            "dramatiq gevent 20": worker_speed.dramatiq_burst,
        },
    ),
    Row(
        name="pg-sleep",
        setting="{count} x pg_sleep({seconds}), {slots} slots",
        measure=worker_speed.pg_sleep,
        sizes={"count": 20, "seconds": 1, "slots": 20, "limit_seconds": 40},
        quick={"limit_seconds": 4},
        figures=(_seconds("queries wait side by side", 1.5),),
        is_waiting=True,
    ),
)

CELERY_PEERS: Mapping[str, Callable[..., Values]] = {
    "Celery prefork 4": lambda stage, **sizes: worker_speed.prefork(stage, worker_speed.throughput, **sizes),
    "Celery threads 20": lambda stage, **sizes: worker_speed.threads(stage, worker_speed.throughput, **sizes),
}
PEERS: Mapping[str, Callable[..., Values]] = {
    **CELERY_PEERS,
    "dramatiq gevent 20": worker_speed.dramatiq_throughput,
    "rq, one worker": worker_speed.rq_throughput,
}


def _throughput(name: str, what: str, sizes: Mapping[str, Any], quick: int, figures: tuple[Figure, ...]) -> Row:
    kept = "results kept" if sizes["keeps_results"] else "results ignored"
    return Row(
        name=name,
        setting=f"{{count}} {what}, {{slots}} slots, {kept}",
        measure=worker_speed.throughput,
        sizes={"slots": 20, "limit_seconds": 45, **sizes},
        quick={"count": quick, "limit_seconds": 6},
        figures=figures,
        peers=PEERS,
        peer_sizes={"rq, one worker": {"count": 150}},  # one at a time
        has_quick_peers=name == "noop-kept",
    )


def _rate(promise: str, times_stock: float) -> Figure:
    return Figure(key="per_second", promise=promise, unit="tasks/s", better="higher", times_stock=times_stock)


def _cpu(promise: str, times_stock: float) -> Figure:
    return Figure(key="cpu_ms", promise=promise, unit="ms", better="lower", times_stock=times_stock)


THROUGHPUT = (
    _throughput(
        "noop-kept",
        "no-op tasks",
        {"count": 4000, "keeps_results": True},
        600,
        (_rate("tasks per second, no-op", 3), _cpu("processor time per task, no-op", 0.5)),
    ),
    _throughput(
        "noop-ignored",
        "no-op tasks",
        {"count": 4000, "keeps_results": False},
        600,
        (
            _rate("tasks per second, no-op, without results", 1),
            _cpu("processor time per task, no-op, without results", 1),
        ),
    ),
    _throughput(
        "10ms-kept",
        "tasks of {seconds} s",
        {"count": 2000, "seconds": 0.01, "keeps_results": True},
        400,
        (_rate("tasks per second, 10 ms", 3),),
    ),
)


def _clients(slots: int, quick_count: int) -> Row:
    return Row(
        name=f"clients-{slots}",
        setting="{count} tasks of {seconds} s, {slots} slots, results kept",
        measure=worker_footprint.clients,
        sizes={"count": 2000, "seconds": 0.05, "slots": slots, "limit_seconds": 60},
        quick={"count": quick_count, "limit_seconds": 3},
        figures=(
            Figure(
                key="peak", promise="connections at once stay bounded", unit="", better="lower", limit=2 * slots + 15
            ),
            _none("unacked", "every acknowledgement arrives", "open"),
            Figure(key="slots", promise="no slot is lost under load", unit="slots", better="higher", limit=slots),
        ),
    )


FOOTPRINT = (
    Row(
        name="new-connections",
        setting="{count} tasks, {slots} slots, results kept",
        measure=worker_footprint.new_connections,
        sizes={"count": 400, "slots": 20, "limit_seconds": 60},
        quick={"count": 100, "limit_seconds": 5},
        figures=(Figure(key="count", promise="connections are reused", unit="new", better="lower", limit=25),),
    ),
    _clients(20, 200),
    _clients(50, 500),
    Row(
        name="idle-memory",
        setting="{slots} slots",
        measure=worker_footprint.idle_memory,
        sizes={"slots": 20},
        quick={},
        figures=(Figure(key="megabytes", promise="memory at rest", unit="MB", better="lower", limit=110),),
        is_waiting=True,
    ),
    Row(
        name="slot-memory",
        setting="{few} and {many} slots with a waiting task each",
        measure=worker_footprint.slot_memory,
        sizes={"few": 20, "many": 220},
        quick={},
        figures=(Figure(key="kilobytes", promise="memory per waiting task", unit="kB", better="lower", limit=100),),
        is_waiting=True,
    ),
    Row(
        name="start",
        setting="process start to first message, trivial app",
        measure=worker_footprint.start,
        sizes={},
        quick={},
        figures=(_seconds("starts fast", 1.0, 1.5),),
    ),
    Row(
        name="idle-cpu",
        setting="empty queue, {seconds} s",
        measure=worker_footprint.idle_cpu,
        sizes={"seconds": 10},
        quick={"seconds": 5},
        figures=(
            Figure(
                key="percent", promise="idle costs nothing", unit="% of a core", better="lower", limit=1, quick_limit=2
            ),
        ),
        is_waiting=True,
    ),
)

RENEWAL = (
    Row(
        name="recycle",
        setting="{count} tasks, limit {most_tasks} per slot, {slots} slots",
        measure=worker_footprint.recycle,
        sizes={"count": 60, "slots": 2, "most_tasks": 10, "limit_seconds": 60},
        quick={"count": 40, "most_tasks": 5, "limit_seconds": 8},
        figures=(
            Figure(key="renewals", promise="renewed after its tasks", unit="renewals", better="higher", limit=2),
            _none("wrong", "a renewal loses and doubles nothing", "tasks"),
        ),
        is_waiting=True,
    ),
    Row(
        name="leak",
        setting="{count} tasks that leak 4 MiB each, 10 MB/s, limit {limit_mb} MB",
        measure=worker_footprint.leak,
        sizes={"count": 90, "limit_mb": 200},
        quick={"count": 20, "limit_mb": 130},
        figures=(
            # the limit, what leaks before the next look at it, and what the drain takes
            Figure(
                key="megabytes", promise="renewed near its memory limit", unit="MB", better="lower",
                limit=220, quick_limit=150,
            ),
            _none("wrong", "a renewal for memory loses and doubles nothing", "tasks"),
        ),
        is_waiting=True,
    ),
)  # fmt: skip


def _outage(name: str, away_seconds: int, quick: Mapping[str, Any], *, keeps_results: bool) -> Row:
    results = "kept" if keeps_results else "ignored"
    doubled = (
        Figure(
            key="twice",
            # the profile gives a task back whose result cannot be stored
            promise="an outage doubles no more than what ran",
            unit="tasks",
            better="lower",
            limit=20,
        )
        if keeps_results
        else _none("twice", "an outage doubles no task", "tasks")
    )
    return Row(
        name=name,
        setting=f"{{count}} tasks of {{seconds}} s, {{slots}} slots, results {results}, Redis away {{away_seconds}} s",
        measure=worker_faults.outage,
        sizes={
            "count": 300,
            "seconds": 0.5,
            "slots": 20,
            "away_seconds": away_seconds,
            "after_seconds": 30,
            "keeps_results": keeps_results,
        },
        quick={"count": 100, "after_seconds": 7, **quick},
        figures=(
            _none("never_run", "an outage loses no task", "tasks"),
            doubled,
            Figure(key="first_end", promise="works on soon after an outage", unit="s", better="lower", limit=5),
            _none("exits", "the worker lives through it", "exits"),
        ),
        is_waiting=True,
        is_durable=True,
    )


FAULTS = (
    Row(
        name="redis-restart-2s",
        setting="Redis away {away_seconds} s; three workers of {slots} slots: idle, half busy, full",
        measure=worker_faults.redis_restart,
        sizes={"away_seconds": 2, "slots": 20},
        quick={"slots": 10},
        figures=(
            _none("exits", "a restart of Redis ends no worker", "exits of 3"),
            _none("silent", "a restart of Redis silences no worker", "silent of 3"),
        ),
        is_waiting=True,
        is_durable=True,
    ),
    Row(
        name="hub-gap",
        setting="idle worker, Redis away {away_seconds} s",
        measure=worker_faults.hub_gap,
        sizes={"away_seconds": 20},
        quick={"away_seconds": 6},
        figures=(_seconds("nothing stands still while Redis is away", 0.3),),
        is_waiting=True,
        is_durable=True,
    ),
    _outage("outage-5s", 5, {"away_seconds": 2}, keeps_results=True),
    _outage("outage-30s", 30, {"away_seconds": 5}, keeps_results=True),
    _outage("outage-5s-ignored", 5, {"away_seconds": 2}, keeps_results=False),
    Row(
        name="sigkill-recovery",
        setting="{count} running tasks, visibility timeout {visibility_seconds} s",
        measure=worker_faults.sigkill,
        sizes={"count": 4, "visibility_seconds": 15, "limit_seconds": 40},
        quick={"visibility_seconds": 4, "limit_seconds": 11},
        figures=(_seconds("a killed worker's tasks run again", 25, 10),),
        is_waiting=True,
    ),
    Row(
        name="sigquit",
        setting="{count} running tasks of {seconds} s",
        measure=worker_faults.sigquit,
        sizes={"count": 4, "seconds": 8.0},
        quick={"seconds": 4.0},
        figures=(_none("lost", "SIGQUIT loses no task", "tasks"),),
        is_waiting=True,
    ),
    Row(
        name="sigterm-drain",
        setting="{slots} running tasks of 60 s and {waiting} waiting, drain {drain_seconds} s",
        measure=worker_faults.sigterm,
        sizes={"slots": 4, "waiting": 8, "drain_seconds": 4, "limit_seconds": 15},
        quick={"drain_seconds": 2, "limit_seconds": 6},
        figures=(
            _seconds("SIGTERM ends it in time", 6, 4),
            _none("exit_code", "a drained worker exits 0", ""),
            _none("not_given_back", "what did not fit is given back", "tasks"),
            _none("unacked", "nothing is left behind", "messages"),
            _none("started_after", "nothing starts after SIGTERM", "tasks"),
        ),
        is_waiting=True,
    ),
)

ROWS: Mapping[str, Row] = {row.name: row for row in (*BURSTS, *FAULTS, *RENEWAL, *FOOTPRINT, *THROUGHPUT)}
