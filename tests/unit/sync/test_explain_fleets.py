"""What an explanation says of fleets, by the map of the settings."""

from worker_app import fleets
from worker_app.queue_depth import QueueDepth, Worker
from worker_app.sync.explain_findings import Bounds, no_consumer
from worker_app.sync.explain_fleet import Fleet
from worker_app.sync.explain_message import _unpublishable

KNOWN = fleets.parse(
    "main=default,celery,scheduler,sync,sync.github,sync.gitlab,reports,webhooks;"
    "trackers=sync.jira,sync.linear,sync.git;worker-ingest=ingest;worker-heavy=metrics,backfill"
)
BOUNDS = Bounds(8, 10_000, 300, 60, 3600, KNOWN)


def of(*workers: Worker, known: fleets.Fleets = KNOWN) -> Fleet:
    alone = QueueDepth("sync.jira", ready=2, oldest_age_seconds=None, running=0, held=None, consumers=0)
    return Fleet(workers=workers, depths={"sync.jira": alone}, known=known)


def test_queue_without_a_worker_names_its_fleet_in_the_map() -> None:
    assert [item.remedy for item in no_consumer("sync.jira", of())] == ["dev-hops worker --fleet trackers"]
    built_in = no_consumer("sync.jira", of(known=fleets.BUILT_IN))
    assert [item.remedy for item in built_in] == ["dev-hops worker --fleet worker"]


def test_relay_is_missed_only_where_no_fleet_that_has_one_is_there() -> None:
    (found,) = _unpublishable("sync.git", of(Worker("a", "worker-heavy", ("metrics",), 4, {})), BOUNDS)
    assert (found.code, found.remedy) == ("no_relay", "dev-hops worker --fleet main")
    assert "fleet main or trackers" in found.text
    assert _unpublishable("sync.git", of(Worker("a", "trackers", ("sync.git",), 4, {})), BOUNDS) == []
