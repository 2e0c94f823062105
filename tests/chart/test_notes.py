"""What helm prints after an installation."""

import re

import pytest

from tests.chart import helm
from tests.chart.values import DIGEST, FOURTH_FLEET, KEDA_REDIS, MATRIX, NO_AUTOSCALER, fleet, over
from worker_app import settings


def _notes(values: helm.Values) -> str:
    return " ".join(helm.notes(values).split())


def test_fleets_stand_with_their_queues_drain_and_grace() -> None:
    notes = helm.notes(over())
    for name, pods, slots, drain, grace, queues in (
        ("worker", "2–10", 20, 240, 300, "default,celery,scheduler"),
        ("worker-ingest", "1", 1, 60, 90, "ingest"),
        ("worker-heavy", "1–4", 4, 540, 600, "metrics,backfill"),
    ):
        assert re.search(rf"^{name} +{pods} +{slots} +{drain} +{grace} .*{queues}", notes, re.MULTILINE), name


@pytest.mark.parametrize(
    ("values", "clients"),
    [
        # 100 + 10 × (2 × 20 + 15) + 1 × (2 × 1 + 15) + 4 × (2 × 4 + 15) + 3 × 25
        (over(), 834),
        # 100 + 2 × 55 + 17 + 2 × 23, and no API above three
        (NO_AUTOSCALER, 273),
        (over(NO_AUTOSCALER, {"api": {"replicas": 3}}), 273),
        (over(NO_AUTOSCALER, {"api": {"replicas": 4}}), 298),
        # 834 + 10 × (2 × 10 + 15)
        (over(FOURTH_FLEET), 1184),
        (MATRIX["slots by autoscale"], 834),
        (MATRIX["no api"], 273),
    ],
)
def test_the_budget_of_connections_is_that_of_the_most_pods(values: helm.Values, clients: int) -> None:
    assert f"Redis clients at most: {clients} " in helm.notes(values)
    assert "maxclients" in helm.notes(values)


@pytest.mark.parametrize(
    ("values", "connections"),
    [
        # 10 × (20 + 5) + 1 × (1 + 5) + 4 × (4 + 5) + 6 × 12 + 10; fixed: 2 × 25 + 6 + 2 × 9 + 10
        (over(), 374),
        (MATRIX["no api"], 84),
        # 374, and 4 × 4 × 4 in place of 4 × (4 + 5)
        (over(fleet("worker-heavy", pool="prefork")), 402),
    ],
)
def test_the_budget_of_postgres_is_that_of_the_most_pods(values: helm.Values, connections: int) -> None:
    assert f"Postgres connections at most: {connections} " in helm.notes(values)


@pytest.mark.parametrize(
    ("values", "clients", "connections"),
    [
        # 100 + 2 × 550 + 17 + 2 × 92 + (2 × 6 - 3) × 25; 2 × 250 + 6 + 2 × 36 + 2 × 72 + 10
        (over(), 1626, 732),
        # 100 + 4 × 55 + 17 + 4 × 23 + 25; 4 × 25 + 6 + 4 × 9 + 4 × 12 + 10
        (NO_AUTOSCALER, 454, 200),
        (MATRIX["no api"], 429, 152),
    ],
)
def test_a_rollout_holds_the_pods_that_drain_beside_the_new_ones(
    values: helm.Values, clients: int, connections: int
) -> None:
    assert f"then up to {clients} clients and {connections} connections" in _notes(values)


def test_the_formula_of_prefork_stands_there() -> None:
    assert "(Σ pods × (slots + 5), or × 4 × slots with prefork" in _notes(over())


@pytest.mark.parametrize(
    ("slots", "memory", "is_warned"),
    [
        (20, "768Mi", False),
        (200, "768Mi", True),
        (200, "4160M", False),  # (15 × 200 + 200) × 1.3
        (200, "4159M", True),
        (200, "4Gi", False),
        (200, "3.8Gi", True),
        (200, 4_160_000_000, False),
        (200, "4159999k", True),
        (200, "5Ti", False),
    ],
)
def test_memory_that_does_not_hold_the_slots_is_warned_of(slots: int, memory: str | int, is_warned: bool) -> None:
    notes = _notes(over(fleet("worker", concurrency=slots, resources={"limits": {"memory": memory}})))

    assert ("WARNING: fleets.worker has 200 slots and a memory limit of" in notes) is is_warned
    assert ("are 4160 MB" in notes) is is_warned


def test_memory_without_a_limit_is_no_matter() -> None:
    values = {"fleetDefaults": {"resources": {"limits": None}, "replicas": 2}, **fleet("worker", concurrency=200)}

    assert "memory limit" not in _notes(over(values))


def test_a_tag_that_chooses_nothing_is_warned_of() -> None:
    words = "image.digest wins over image.tag, 1.2.3"

    assert words in _notes(MATRIX["digest"])
    assert words not in _notes(over({"image": {"digest": DIGEST, "tag": ""}}))
    assert "image.digest wins" not in _notes(over())


def test_a_migration_that_failed_is_told_how_to_begin_again() -> None:
    command = "delete job --selector app.kubernetes.io/instance=hops,app.kubernetes.io/component=migrate"

    assert f"kubectl --namespace dev {command}" in _notes(MATRIX["migrations as a job"])
    assert command not in _notes(over())  # a hook is made anew by itself


def test_the_number_of_the_autoscaler_stands_there_and_how_to_ask_for_it() -> None:
    notes = _notes(over())

    assert "hpa work/16" in notes
    assert "hpa work/4" in notes
    assert "dev_hops_fleet_work" in notes
    assert "describe hpa hops-dev-hops-worker" in notes
    assert "/autoscale/worker" in notes
    assert "Authorization: Bearer $AUTOSCALE_TOKEN" in notes
    assert "keda work/16" in _notes(MATRIX["keda by the api"])
    assert "keda ready/40" in _notes(KEDA_REDIS)


def test_nobody_is_told_to_ask_an_api_that_is_not_there() -> None:
    assert "/autoscale/" not in _notes(MATRIX["no api"])
    assert "describe hpa" not in _notes(NO_AUTOSCALER)


@pytest.mark.parametrize(("window", "is_warned"), [(120, True), (300, True), (301, False), (600, False)])
def test_a_window_that_is_no_longer_than_the_dispatch_is_warned_of(window: int, is_warned: bool) -> None:
    values = over(fleet("worker", autoscaling={"behavior": {"scaleDown": {"stabilizationWindowSeconds": window}}}))

    assert (f"WARNING: fleets.worker scales down after {window} s" in _notes(values)) is is_warned


@pytest.mark.parametrize(("period", "is_warned"), [(599, False), (600, True)])
def test_a_dispatch_that_is_rarer_wants_a_longer_window(period: int, is_warned: bool) -> None:
    notes = _notes(over({"config": {"DISPATCH_INTERVAL_SECONDS": period}}))

    assert (f"Beat dispatches every {period} s" in notes) is is_warned


def test_the_period_of_the_dispatch_is_that_of_the_program() -> None:
    assert settings.Settings.model_fields["dispatch_interval_seconds"].default == 300


def test_a_window_of_a_fleet_without_an_autoscaler_is_no_matter() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    values = over(fleet("worker", autoscaling={"kind": "none", "behavior": behavior}))

    assert "WARNING" not in _notes(values)


@pytest.mark.parametrize(("drain", "is_warned"), [(281, True), (280, False)])
def test_a_grace_that_leaves_no_time_to_give_back_is_warned_of(drain: int, is_warned: bool) -> None:
    assert (
        "WARNING: fleets.worker has less than 20 s" in _notes(over(fleet("worker", drainSeconds=drain)))
    ) is is_warned


def test_the_change_to_an_autoscaler_and_its_remedy_stand_there() -> None:
    notes = _notes(over())

    assert "goes to one pod once" in notes
    assert "scale deployment/hops-dev-hops-worker --replicas=2" in notes
    assert "scale deployment/hops-dev-hops-worker-heavy --replicas=1" in notes
    assert "scale deployment/hops-dev-hops-api --replicas=2" in notes
    assert "deployment/hops-dev-hops-worker-ingest" not in notes


def test_no_remedy_is_announced_where_nothing_is_scaled() -> None:
    assert "goes to one pod once" not in _notes(NO_AUTOSCALER)
    only_api = _notes(over(NO_AUTOSCALER, {"api": {"autoscaling": {"kind": "hpa"}}}))
    assert only_api.endswith("scale deployment/hops-dev-hops-api --replicas=2")


def test_who_migrates_by_hand_is_reminded() -> None:
    assert "migrations.mode is none" in _notes(MATRIX["migrations by nobody"])
    assert "migrations.mode is none" not in _notes(over())


@pytest.mark.parametrize("name", MATRIX)
def test_notes_are_there_for_every_shape_of_a_release(name: str) -> None:
    notes = helm.notes(MATRIX[name])

    assert "registry.example/dev-hops" in notes
    assert not re.search(r"<nil>|%!|map\[|<no value>", notes)
    assert max(map(len, notes.splitlines())) < 220
