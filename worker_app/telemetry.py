"""Telemetry: numbers about ourselves. One table of every name; no label holds a task id, a run, an organisation or a pod.

Each number belongs to one kind of process and is exposed by that kind alone: a gauge that nobody sets there would stand at 0
and look like an answer. The exporter is the API, which reads Redis and Postgres.
Page: https://prometheus.io/docs/practices/naming/
"""

from pathlib import Path
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server

from worker_app import errors, settings

Of = Literal["livemax", "livesum", "livemostrecent", "max"]
WORKER = CollectorRegistry()
BEAT = CollectorRegistry()
EXPORTER = CollectorRegistry()
PREFIX = "dev_hops"
FOLDER_OF_CHILDREN = (
    "PROMETHEUS_MULTIPROC_DIR"  # the client library opens a file there with its first number, in any process
)


def _make_folder(path: str | None) -> None:
    """Make the folder that was given for the numbers of children. Raises SettingsError."""
    try:
        if path:
            Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.SettingsError(
            f"{FOLDER_OF_CHILDREN} is {path!r}: there can be no such folder ({error.strerror}); give another, or leave it unset"
        ) from error


_make_folder(settings.variable(FOLDER_OF_CHILDREN))
for _owner in (WORKER, BEAT, EXPORTER):
    ProcessCollector(registry=_owner)  # process_*: memory, CPU, open files


def _counter(name: str, help_text: str, *labels: str) -> Counter:
    return Counter(name, help_text, labels, namespace=PREFIX, registry=WORKER)


def _gauge(owner: CollectorRegistry, name: str, help_text: str, *labels: str, of_children: Of = "livemax") -> Gauge:
    """`of_children`: what one value becomes of those that the processes of a prefork worker have."""
    return Gauge(name, help_text, labels, namespace=PREFIX, registry=owner, multiprocess_mode=of_children)


TASKS_RECEIVED = _counter(
    "task_received_total", "Messages taken from a queue whose task is to run here", "task", "queue"
)
TASKS_STARTED = _counter("task_started_total", "Tasks begun", "task", "queue")
TASKS_SUCCEEDED = _counter("task_succeeded_total", "Tasks that returned", "task", "queue")
TASKS_FAILED = _counter("task_failed_total", "Tasks that raised", "task", "queue")
TASKS_RETRIED = _counter("task_retried_total", "Tasks that asked for another try", "task", "queue")
TASKS_REJECTED = _counter(
    "task_rejected_total",
    "Messages that no task could be made of, or that their task rejected; `unknown` is a task that is not ours",
    "task",
    "queue",
)
TASKS_REVOKED = _counter(
    "task_revoked_total", "Tasks ended or dropped before their end, by a person or a limit", "task", "queue"
)
TASK_RUNTIME = Histogram(
    "task_runtime_seconds",
    "Time from start to end of a task",
    ("task",),
    namespace=PREFIX,
    registry=WORKER,
    buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600),
)
TASK_QUEUE_WAIT = Histogram(
    "task_queue_wait_seconds",
    "Time from when a message might run, its countdown excluded, to the start of its task",
    ("queue",),
    namespace=PREFIX,
    registry=WORKER,
    buckets=(0.05, 0.25, 1, 5, 15, 60, 300, 900, 1800),
)
WORKER_TASKS_ACTIVE = _gauge(WORKER, "worker_tasks_active", "Tasks running in this process", of_children="livesum")
WORKER_SLOTS = _gauge(WORKER, "worker_slots", "Most tasks that may run in this process")
WORKER_HUB_LAG = _gauge(
    WORKER,
    "worker_hub_lag_seconds",
    "Most seconds that the gevent hub was late in the last 60 seconds; above 5 a log line `hub.blocked` names the code",
)
WORKER_DRAINING = _gauge(WORKER, "worker_draining", "1 while this process gives its work back and ends")
WORKER_LAST_RECEIVED = _gauge(
    WORKER, "worker_last_received_timestamp_seconds", "When this process last received a message; 0: not yet"
)
WORKER_ACK_FAILURES = _counter(
    "worker_ack_failures_total", "Acknowledgements that the broker did not take; the message runs a second time"
)
WORKER_RECOVERED = _counter(
    "worker_recovered_messages_total", "Messages of dead workers that this process put back into their queue"
)
WORKER_RECYCLES = _counter(
    "worker_recycles_total", "Times that this process began anew: for its tasks, its memory, or a SIGHUP", "reason"
)
OUTBOX_PUBLISHED = _counter("outbox_published_total", "Owed messages that Redis took")
OUTBOX_PUBLISH_FAILURES = _counter("outbox_publish_failures_total", "Times that Redis or Postgres failed a relay")
OUTBOX_DELAY = Histogram(
    "outbox_delay_seconds",
    "Time from when an owed message might leave to when a relay took it",
    namespace=PREFIX,
    registry=WORKER,
    buckets=(0.05, 0.25, 1, 5, 15, 60, 300, 1800),
)
OCCURRENCES_MINTED = _counter("occurrences_minted_total", "Slots that became a run")
OCCURRENCES_REPEATED = _counter("occurrences_repeated_total", "Slots that the ledger held already")
OCCURRENCES_SKIPPED = _counter(
    "occurrences_skipped_total", "Slots that became no run, by the job's own rule (overlap, catchup)", "reason"
)
OCCURRENCES_BUFFERED = _counter("occurrences_buffered_total", "Slots that wait for the active run of their job")
IDLE_DUE_WINDOWS = _counter(
    "idle_due_windows_total", "Ticks that found due jobs and served no slot; rising: look at the log"
)
DISPATCH_LAST_TICK = _gauge(
    WORKER,
    "dispatch_last_tick_timestamp_seconds",
    "When this process last served a tick; 0: not yet. Take the newest",
    of_children="max",
)
DISPATCH_SKIPPED_LOCKED = _counter(
    "dispatch_skipped_locked_total", "Times that a tick passed by due jobs which somebody else had locked just then"
)
CLOCK_SKEW = _gauge(
    WORKER,
    "clock_skew_seconds",
    "Clock of this host minus the database's, at the last tick; nothing is decided by it",
    of_children="livemostrecent",
)
SCHEDULES_FAULTED = _counter("schedules_faulted_total", "Scheduled jobs set aside with a fault")
DUPLICATE_MESSAGES = _counter("duplicate_messages_total", "Messages whose row had been taken or closed", "task")
ORPHAN_MESSAGES = _counter(
    "orphan_messages_total",
    "Of the duplicates, messages whose row does not exist: Postgres has gone back in time",
    "task",
)
BATCHES = _counter("sync_batches_total", "Ends of one lease of a batch", "provider", "dataset", "result")
RECORDS_WRITTEN = _counter("sync_records_written_total", "Records written", "provider", "dataset")
BATCHES_RESCUED = _counter("batches_rescued_total", "Batches and runs that a dead worker left and rescue armed again")
PROVIDER_REQUESTS = _counter("provider_requests_total", "Replies of a provider", "provider", "status_class")
PROVIDER_REQUEST_SECONDS = Histogram(
    "provider_request_seconds",
    "Time from sending a request to the end of its reply",
    ("provider",),
    namespace=PREFIX,
    registry=WORKER,
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
GATE_WAIT = Histogram(
    "gate_wait_seconds",
    "Time that a request slept in the gate, where it did",
    ("provider",),
    namespace=PREFIX,
    registry=WORKER,
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5),
)
GATE_BLOCKED = _counter("gate_blocked_total", "Sleeps in the gate", "provider", "reason")
GATE_DEFERRALS = _counter(
    "gate_deferrals_total", "Requests that were sent away to wait in Postgres", "provider", "reason"
)
GATE_WINDOWS = _counter(
    "gate_windows_total", "Windows that were opened, extended, ended or cleared", "provider", "event"
)
GATE_LEAKS = _counter(
    "gate_rejects_after_block_total",
    "Refused requests that had started while the gate was closed; stays at 0",
    "provider",
)
GATE_LEASES_LOST = _counter("gate_lease_lost_total", "Requests that outlived their lease", "provider")
GATE_UNKNOWN_REASONS = _counter("gate_unknown_reasons_total", "Refusals for a reason that nobody knows", "provider")
GATE_QUARANTINED = _counter("gate_quarantined_headers_total", "Header values that were not believed", "provider")
GATE_UNTRACKED = _gauge(
    WORKER,
    "gate_untracked",
    "1 for a host that counts no quota, as last heard",
    "provider",
    "host",
    of_children="livemostrecent",
)
GATE_CLOCK_STEPS = _counter("gate_clock_step_total", "Times that the clock of Redis was moved")
GATE_LOCAL_SECONDS = _counter("gate_local_mode_seconds_total", "Time without Redis, each process on its share")
GATE_TRIP = Histogram(
    "gate_trip_seconds",
    "Time of one call of the gate's Redis",
    namespace=PREFIX,
    registry=WORKER,
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.15),
)
CREDENTIAL_UNDECRYPTABLE = _counter(
    "credential_undecryptable_total",
    "Sealed credentials that did not open: another key ring, or a damaged row",
    "provider",
)
METRIC_DAYS_COMPUTED = _counter("metric_days_computed_total", "Days whose metrics were computed")
BEAT_LAST_TICK = _gauge(BEAT, "beat_last_tick_timestamp_seconds", "When beat last ticked")
BEAT_LEADER = _gauge(BEAT, "beat_leader", "1 in the beat that holds the lock")
BEAT_STALE_TICKS = _counter("beat_stale_ticks_total", "Ticks of a beat that had lost its lock, dropped")
QUEUE_READY = _gauge(EXPORTER, "queue_ready", "Messages ready in a queue", "queue")
QUEUE_OLDEST_AGE = _gauge(EXPORTER, "queue_oldest_age_seconds", "Age of the oldest ready message", "queue")
QUEUE_RUNNING = _gauge(EXPORTER, "queue_running", "Tasks of a queue that run now", "queue")
QUEUE_CONSUMERS = _gauge(EXPORTER, "queue_consumers", "Workers that consume a queue", "queue")
QUEUE_HELD = _gauge(
    EXPORTER, "queue_held", "Ready messages whose gate is closed; more workers cannot help them", "queue"
)
UNACKED_MESSAGES = _gauge(EXPORTER, "unacked_messages", "Messages that a worker has taken and not settled")
UNACKED_OLDEST_AGE = _gauge(
    EXPORTER,
    "unacked_oldest_age_seconds",
    "Time since the message that was renewed longest ago was taken or renewed; above the visibility timeout nobody recovers",
)
FLEET_WORK = _gauge(
    EXPORTER, "fleet_work", "Messages ready and tasks running, without what a closed gate holds back", "fleet"
)
FLEET_SLOTS = _gauge(EXPORTER, "fleet_slots", "Most tasks that the workers of a fleet may run at once", "fleet")
FLEET_OLDEST_AGE = _gauge(
    EXPORTER, "fleet_oldest_age_seconds", "Age of the oldest ready message of a fleet that is not held back", "fleet"
)
DEFERRED_BATCHES = _gauge(EXPORTER, "deferred_batches", "Batches that wait in Postgres for their time", "provider")
WATERMARK_AGE = _gauge(
    EXPORTER,
    "sync_watermark_age_seconds",
    "Time since up to when the records are complete, of the source that is furthest behind; without sources that "
    "nothing syncs",
    "provider",
    "dataset",
)
SLOTS_BEHIND = _gauge(
    EXPORTER,
    "sync_slots_behind",
    "Slots of a schedule since up to when the records are complete, of the source that is furthest behind",
    "provider",
    "dataset",
)
REDIS_POLICY_OK = _gauge(
    EXPORTER, "redis_maxmemory_policy_ok", "1 while the broker evicts nothing; absent where it does not tell"
)
REDIS_CLIENTS_RATIO = _gauge(
    EXPORTER, "redis_connected_clients_ratio", "Connected clients of the broker as a share of the most that it lets in"
)
GATE_CLOSED = _gauge(EXPORTER, "gate_closed", "Keys of the rate-limit gate that are closed now", "provider", "host")
GATE_RESUME = _gauge(
    EXPORTER,
    "gate_resume_timestamp_seconds",
    "When the last of the closed keys opens again; absent while none is closed",
    "provider",
    "host",
)
GATE_BUDGET = _gauge(
    EXPORTER,
    "gate_budget_remaining",
    "What is left of a quota, of the organisation that has the least",
    "provider",
    "host",
    "bucket",
)
OUTBOX_ROWS = _gauge(EXPORTER, "outbox_rows", "Messages that the outbox owes")
OUTBOX_OLDEST_AGE = _gauge(EXPORTER, "outbox_oldest_age_seconds", "Age of the oldest message that the outbox owes")
SCHEDULE_LAG = _gauge(EXPORTER, "schedule_lag_seconds", "Age of the oldest slot that is due and not served")
SCHEDULES_QUARANTINED = _gauge(EXPORTER, "schedules_quarantined", "Scheduled jobs that are set aside with a fault")
RUNS_STUCK = _gauge(
    EXPORTER, "runs_stuck", "Open runs past their deadline, or whose lease has been over for more than ten minutes"
)
CREDENTIAL_ROWS = _gauge(
    EXPORTER, "credential_rows", "Versions of credentials, without revoked ones, that a key of the ring wraps", "key_id"
)
SCHEMA_VERSION = _gauge(EXPORTER, "schema_version", "Newest finished schema change", "store")
SCHEMA_CURRENT = _gauge(EXPORTER, "schema_current", "1 while the schema is what this program needs")
EXPORTER_UP = _gauge(EXPORTER, "exporter_up", "1 while a source of the exporter answers", "source")


def serve(host: str, port: int, owner: CollectorRegistry) -> None:
    """Answer `GET /metrics` on `port` with the numbers of `owner`; 0 answers nothing. Raises SettingsError on a taken port."""
    if not port:
        return
    try:
        start_http_server(port, addr=host, registry=owner)
    except OSError as error:
        raise errors.SettingsError(
            f"METRICS_PORT is {port}: it cannot be listened on ({error.strerror}); give a free one, or 0 for none"
        ) from error


def table() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Every name as (name, kind, meaning, labels), sorted: what docs/reference/telemetry.md is made from."""
    found = []
    for collector in (item for item in globals().values() if isinstance(item, Counter | Gauge | Histogram)):
        (described,) = collector.describe()
        suffix = "_total" if isinstance(collector, Counter) else ""
        labels = tuple(collector._labelnames)
        found.append((described.name + suffix, described.type, described.documentation, labels))
    return sorted(found)
