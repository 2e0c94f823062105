import pytest

from worker_app import errors, fleets, queues, settings

FIVE = (
    "worker=default,celery,scheduler,sync,sync.github,sync.gitlab,sync.jira,sync.linear,sync.git; "
    "worker-webhooks = webhooks , reports ;worker-ingest=ingest;worker-heavy=metrics,backfill;spare=webhooks;"
)


def load(**environ: str) -> settings.Settings:
    return settings.load({"DEV_HOPS_DIR": "/nonexistent", **environ})


def fault_of(**environ: str) -> str:
    with pytest.raises(errors.SettingsError) as caught:
        load(**environ)
    return str(caught.value)


def map_without(*names: str, **extra: str) -> str:
    """The built-in fleets without these queues, and more of them."""
    kept = {fleet: ",".join(queue for queue in had if queue not in names) for fleet, had in fleets.BUILT_IN.items()}
    return ";".join(f"{fleet}={had}" for fleet, had in (kept | extra).items())


def test_fleets_are_the_three_built_in_ones_unless_named() -> None:
    assert load().dev_hops_fleets == fleets.BUILT_IN == queues.FLEETS
    assert load(DEV_HOPS_FLEETS="").dev_hops_fleets == fleets.BUILT_IN


def test_fleets_are_read_in_their_order_and_say_the_same_again() -> None:
    found = fleets.parse(FIVE)
    assert list(found) == ["worker", "worker-webhooks", "worker-ingest", "worker-heavy", "spare"]
    assert found["worker-webhooks"] == ("webhooks", "reports")
    assert fleets.parse(fleets.text_of(found)) == found
    assert fleets.consuming(found, "webhooks") == ("worker-webhooks", "spare")
    assert fleets.consuming(found, "typo") == ()


def test_worker_may_be_of_any_named_fleet() -> None:
    found = load(DEV_HOPS_FLEETS=FIVE, DEV_HOPS_FLEET="worker-webhooks")
    assert found.consumed_queues == ("webhooks", "reports")
    assert found.shown()["DEV_HOPS_FLEETS"].startswith("worker=default,celery,")
    assert load(DEV_HOPS_FLEETS=FIVE, DEV_HOPS_FLEET="spare", CELERY_QUEUES="sync").consumed_queues == ("sync",)


@pytest.mark.parametrize("name", ["Worker", "1st", "work_er", "-a", "wörker", "a b"])
def test_bad_name_of_a_fleet_is_named(name: str) -> None:
    message = fault_of(DEV_HOPS_FLEETS=map_without(**{name: "sync"}))
    assert message.startswith("DEV_HOPS_FLEETS is 'worker=default,")
    assert f"{name!r} is no name of a fleet" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (map_without(extra="sync,sync.gihub"), "no such queue: sync.gihub; there are default, celery,"),
        (map_without("reports", "webhooks"), "no fleet consumes webhooks, reports: give each of them to one"),
        (map_without(second="ingest"), "ingest is in 2 fleets"),
        (map_without(empty=""), "fleet empty consumes nothing: name a queue behind its ="),
        (map_without(bare="") + ";bare", "fleet bare is there 2 times: keep one"),
        (map_without(twice="sync,sync"), "fleet twice names sync twice: keep one"),
        (";", "no fleet consumes default, celery,"),
    ],
)
def test_map_that_is_wrong_says_where_and_what_to_do(text: str, words: str) -> None:
    assert words in fault_of(DEV_HOPS_FLEETS=text)


def test_every_fault_of_a_map_comes_out_at_once() -> None:
    message = fault_of(DEV_HOPS_FLEETS="Ä=sync,nope;b=ingest;c=ingest", DEV_HOPS_FLEET="zz")
    words = ("'Ä' is no name", "no such queue: nope", "no fleet consumes default", "ingest is in 2 fleets")
    assert all(word in message for word in words)
    assert "DEV_HOPS_FLEET " not in message  # there is no map to judge it by


def test_fleet_that_is_not_in_the_map_is_refused_with_those_that_are() -> None:
    said = "DEV_HOPS_FLEET is 'nope': there is no such fleet; give one of worker, worker-ingest, worker-heavy"
    assert fault_of(DEV_HOPS_FLEET="nope").startswith(said)


def test_map_without_the_default_fleet_serves_who_is_no_worker() -> None:
    renamed = load(DEV_HOPS_FLEETS=map_without().replace("worker=", "main="))
    assert renamed.dev_hops_fleets["main"] == fleets.BUILT_IN["worker"]
    with pytest.raises(errors.SettingsError, match="DEV_HOPS_FLEET is 'worker': there is no such fleet"):
        _ = renamed.consumed_queues


def test_token_of_the_autoscaler_may_not_be_that_of_the_api() -> None:
    assert "AUTOSCALE_TOKEN is ***" in fault_of(API_TOKEN="same-token", AUTOSCALE_TOKEN="same-token")
    assert load(API_TOKEN="one-token", AUTOSCALE_TOKEN="other-token").autoscale_token is not None


def test_relay_runs_where_tasks_commit_what_is_owed() -> None:
    assert [name for name, consumed in fleets.BUILT_IN.items() if fleets.publishes(consumed)] == ["worker"]
    assert fleets.publishes(("sync.jira",))
    assert not fleets.publishes(("reports", "metrics", "ingest"))
