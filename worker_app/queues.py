"""Queues: which there are, which fleet consumes them, and on which one a task or a provider's batches travel.

`redis-cli llen QUEUE` is the number of messages ready in it: no priorities, no key prefix.
"""

FLEETS: dict[str, tuple[str, ...]] = {
    "worker": (
        "default",
        "celery",  # what foreign producers use; same consumers
        "scheduler",
        "sync",
        "sync.github",
        "sync.gitlab",
        "sync.jira",
        "sync.linear",
        "sync.git",
        "webhooks",
        "reports",
    ),
    "worker-ingest": ("ingest",),
    "worker-heavy": ("metrics", "backfill"),
}
ALL_QUEUES: tuple[str, ...] = tuple(queue for queues in FLEETS.values() for queue in queues)
DEFAULT_QUEUE = "default"
PRESENCE_PREFIX = "dev-hops/presence/"  # of the key with a short life by which a worker says what it consumes and runs
ROLL_CALL_KEY = "dev-hops/fleet"  # sorted set of the workers that are there, with their number of processes
BATCH_PREFIX = "sync."  # of the queues of batches, one for each provider
PROVIDERS: tuple[str, ...] = ("github", "gitlab", "jira", "linear", "git")

TASK_QUEUES: dict[str, str] = {
    "dispatch_scheduled_syncs": "scheduler",
    "rescue": "scheduler",
    "dispatch_sync_run": "sync",
    "finish_sync_run": "sync",
    "run_sync_batch": "sync.git",  # the outbox row names the provider's own queue
    "compute_daily_metrics": "metrics",
    "render_report": "reports",
    "prune": "scheduler",
}


def provider_queue(provider: str) -> str:
    """The queue of a provider's sync batches."""
    if provider not in PROVIDERS:
        raise ValueError(f"no such provider: {provider}")
    return f"{BATCH_PREFIX}{provider}"
