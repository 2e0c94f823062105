import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import hpa, hpa_behavior, hpa_chart, hpa_load, hpa_rows
from bench.hpa_behavior import KUBERNETES, Behavior, Policy, Rules
from bench.hpa_controller import SYNC_SECONDS, TOLERANCE, Controller, Target, direction_flips, wanted
from bench.hpa_load import Arrival
from bench.hpa_pods import Fleet, Pod
from bench.hpa_simulation import Figures, Setup, Simulation, simulate

SEEDS = (1, 2, 3)
AT_ONCE = Rules(0, (Policy("Percent", 100_000, 15),))


@cache
def load(seed: int) -> list[Arrival]:
    return hpa_load.fan_outs(seed)


@cache
def standard(name: str) -> Figures:
    (setup,) = [row.setup for row in hpa_rows.rows() if row.load == "standard" and row.name == name]
    return simulate(setup, load(1))


@cache
def closed() -> list[hpa.Result]:
    return hpa.measure(1, ["closed gate"])


@cache
def chosen_run(seed: int, most: int = hpa_rows.MOST) -> Simulation:
    return Simulation(hpa_rows.chosen(most=most), load(seed)).run()


def controller(behavior: Behavior, *, least: int = 1, most: int = 1000, target: float = 10.0) -> Controller:
    return Controller(least, most, Target(target), behavior)


# The controller against what its documentation reckons


@pytest.mark.parametrize(
    ("metric", "replicas", "pods"),
    [
        (200, 1, 2),  # twice the target: twice the pods
        (200, 4, 8),
        (50, 4, 2),  # half of it: half of them
        (109, 10, 10),  # within a tenth: no change
        (110, 10, 10),
        (111, 10, 12),
        (90, 10, 10),
        (89, 10, 9),
        (0, 3, 0),
    ],
)
def test_a_value_scales_the_pods_that_are_there(metric: float, replicas: int, pods: int) -> None:
    assert wanted(Target(100, "Value"), metric, replicas) == pods


@pytest.mark.parametrize(
    ("metric", "replicas", "pods"), [(32, 1, 2), (33, 1, 3), (35, 2, 2), (36, 2, 3), (29, 2, 2), (28, 2, 2), (16, 2, 1)]
)
def test_an_average_value_is_for_each_pod(metric: float, replicas: int, pods: int) -> None:
    assert wanted(Target(16), metric, replicas) == pods


def test_the_larger_of_two_policies_decides_and_a_broken_pod_is_a_whole_one() -> None:
    down = Rules(0, (Policy("Pods", 4, 60), Policy("Percent", 10, 60)))
    scaler, replicas, steps = controller(Behavior(AT_ONCE, down)), 80, []
    for minute in range(8):
        after = scaler.sync(60.0 * minute, 100, replicas)
        steps.append(replicas - after)
        replicas = after

    # 80: a tenth is 8. 72: 7.2, so 8. 64: 6.4, 7. 57: 5.7, 6. 51: 5.1, 6. 45: 4.5, 5. 40 and below: four pods are more.
    assert steps == [8, 8, 7, 6, 6, 5, 4, 4]


def test_a_policy_allows_its_change_once_in_its_period() -> None:
    scaler = controller(Behavior(Rules(0, (Policy("Pods", 2, 60),)), KUBERNETES.down))

    assert scaler.sync(0.0, 100, 1) == 3
    assert scaler.sync(15.0, 100, 3) == 3
    assert scaler.sync(59.0, 100, 3) == 3
    assert scaler.sync(60.0, 100, 3) == 5


def test_the_smaller_policy_decides_where_min_is_selected_and_none_where_disabled() -> None:
    policies = (Policy("Pods", 2, 60), Policy("Percent", 100, 60))
    for select, pods in (("Max", 20), ("Min", 12), ("Disabled", 10)):
        up = Rules(0, policies, select)
        assert controller(Behavior(up, KUBERNETES.down)).sync(0.0, 1000, 10) == pods


def test_the_way_down_follows_the_highest_recommendation_of_its_window() -> None:
    scaler = controller(Behavior(AT_ONCE, Rules(600, (Policy("Percent", 100, 15),))))
    recommended = [10, 9, 8, 9, 9, 8, 9, 8, 9, 8, 7, 7]
    replicas, seen = 10, []
    for minute, pods in enumerate(recommended):
        replicas = scaler.sync(60.0 * minute, 10 * pods if pods < 9 else 10 * replicas if pods == 10 else 89, replicas)
        seen.append(replicas)

    # For ten minutes the first ten holds; then the nine of the minute after it is the highest.
    assert seen == [10] * 10 + [9, 9]


def test_the_way_up_follows_the_lowest_recommendation_of_its_window() -> None:
    scaler = controller(Behavior(Rules(30, (Policy("Percent", 1000, 15),)), KUBERNETES.down))

    assert [scaler.sync(at, metric, 1) for at, metric in [(0.0, 50), (15.0, 30), (30.0, 40), (45.0, 80)]] == [
        1,
        1,
        3,
        4,
    ]


def test_a_controller_that_begins_does_not_scale_down_at_once() -> None:
    assert controller(KUBERNETES).sync(0.0, 0, 10) == 10
    assert controller(hpa_rows.no_window()).sync(0.0, 0, 10) == 1


def test_kubernetes_own_rules_double_or_add_four_and_wait_five_minutes_down() -> None:
    assert hpa_behavior.parse({}) == KUBERNETES
    assert controller(KUBERNETES).sync(0.0, 1000, 1) == 5
    assert controller(KUBERNETES).sync(0.0, 1000, 10) == 20


@pytest.mark.parametrize(
    "document",
    [
        {"scaleup": {}},
        {"scaleDown": {"stabilizationWindowSeconds": 3601}},
        {"scaleDown": {"selectPolicy": "max"}},
        {"scaleUp": {"policies": [{"type": "Pod", "value": 1, "periodSeconds": 60}]}},
        {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 60}]}},
    ],
)
def test_a_behaviour_that_the_api_server_refuses_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^(behavior|scaleUp|scaleDown)"):
        hpa_behavior.parse(document)


policies = st.builds(Policy, st.sampled_from(("Pods", "Percent")), st.integers(1, 200), st.integers(15, 600))
rules = st.builds(
    Rules,
    st.integers(0, 900),
    st.lists(policies, min_size=1, max_size=3).map(tuple),
    st.sampled_from(("Max", "Min", "Disabled")),
)


@settings(max_examples=80, deadline=None)
@given(
    up=rules,
    down=rules,
    metrics=st.lists(st.integers(0, 5000), min_size=1, max_size=40),
    target=st.builds(Target, st.integers(1, 50), st.sampled_from(("AverageValue", "Value"))),
)
def test_pods_stay_within_bounds_and_move_towards_a_recommendation(
    up: Rules, down: Rules, metrics: list[int], target: Target
) -> None:
    scaler, replicas = Controller(2, 10, target, Behavior(up, down)), 2
    for number, metric in enumerate(metrics):
        asked = wanted(target, metric, replicas)
        after = scaler.sync(number * SYNC_SECONDS, metric, replicas)
        assert 2 <= after <= 10
        assert after <= max(replicas, asked)
        assert after >= min(replicas, max(2, asked))
        replicas = after


@settings(max_examples=60, deadline=None)
@given(work=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 400)), min_size=1, max_size=60))
def test_the_chart_never_takes_a_pod_that_the_running_tasks_need(work: list[tuple[int, int]]) -> None:
    fleet = hpa_chart.fleet("worker")
    scaler = Controller(fleet.least, fleet.most, Target(fleet.work_per_pod), fleet.behavior)
    replicas = fleet.most
    for number, (running, ready) in enumerate(work):
        after = scaler.sync(number * SYNC_SECONDS, running + ready, replicas)
        if after < replicas:
            assert after >= running / (hpa_chart.SHARE * fleet.slots)
        replicas = after


# The chart


def test_the_chart_stabilises_the_way_down_longer_than_beat_dispatches() -> None:
    fleet = hpa_chart.fleet("worker")

    assert fleet.behavior.down.window_seconds > hpa_load.DISPATCH_SECONDS
    assert fleet.behavior.up.window_seconds == 0
    assert fleet.least >= 2  # survives the eviction of one


@pytest.mark.parametrize("name", ["worker", "worker-heavy"])
def test_the_chart_aims_at_four_fifths_of_the_slots(name: str) -> None:
    fleet = hpa_chart.fleet(name)

    assert fleet.work_per_pod == ceil(0.8 * fleet.slots)


def test_values_of_a_fleet_are_laid_over_the_defaults() -> None:
    under = {"a": {"b": 1, "c": [1, 2]}, "d": 0}

    assert hpa_chart.overlaid(under, {"a": {"c": [3]}, "d": None}) == {"a": {"b": 1, "c": [3]}, "d": None}
    assert hpa_chart.fleet("worker-heavy").behavior.up.select == "Max"  # said by the defaults alone


# The whole


@pytest.mark.parametrize(
    ("seed", "most"), [*((seed, hpa_rows.MOST) for seed in SEEDS), (1, hpa_chart.fleet("worker").most)]
)
def test_the_chart_holds_the_standard_load_steady_and_hits_no_task(seed: int, most: int) -> None:
    figures = chosen_run(seed, most).figures()

    assert figures.flips <= 3
    assert figures.changes <= 3
    assert (figures.hit, figures.given_back, figures.left_count) == (0, 0, 0)


@pytest.mark.parametrize("load_of", [hpa_load.sine, hpa_load.fan_outs])
def test_no_pod_goes_that_running_tasks_need(load_of: Callable[..., list[Arrival]]) -> None:
    setup = hpa_rows.chosen(hours=2.0)
    run = Simulation(setup, load_of(4, hours=1.5)).run()
    shrinking = 0
    for look in run.seen.looks:
        needed = look.running / (hpa_chart.SHARE * setup.slots)
        if look.after < look.before:
            shrinking += 1
            assert look.after >= needed
        elif not look.waiting and look.after == look.before < setup.most:
            assert look.after * (1 + TOLERANCE) >= needed
    assert shrinking > 3


FLAPPING = ("LLEN/10, no window", "LLEN/10, Kubernetes default", "LLEN/40, the chart's behaviour", "work/16, window 120 s",
            "age as Value 30 s, Kubernetes default", "work/30, window 600 s")  # fmt: skip


@pytest.mark.parametrize("name", FLAPPING)
def test_other_signals_and_windows_flap_and_hit_tasks(name: str) -> None:
    ours = chosen_run(1).figures()

    assert standard(name).flips >= ours.flips + 10
    assert standard(name).hit > ours.hit


def test_signals_of_the_queue_alone_hit_hundreds_of_tasks() -> None:
    naive, default, ours = (standard(name).hit for name in FLAPPING[:3])

    assert naive > default > ours > 200


def test_the_fleet_shrinks_to_its_minimum_when_the_load_ends() -> None:
    run = Simulation(hpa_rows.chosen(), [item for item in load(1) if item.at < hpa_load.HOUR]).run()
    smallest = next(look.at for look in run.seen.looks if look.at > hpa_load.HOUR and look.after == 2)

    assert run.seen.looks[-1].after == 2
    # Window of 600 s, then 12, 9, 6, 4, 3, 2 with 120 s between; the last dispatch is 300 s before the hour.
    assert 10 * 60 <= smallest - hpa_load.HOUR <= 25 * 60
    assert run.figures().hit == 0


def test_work_without_what_a_closed_gate_holds_saves_pods() -> None:
    assert 0.1 < hpa.saved_share(closed()) < 0.25
    assert all(item.figures.hit == 0 for item in closed())


def test_the_heavy_fleet_loses_few_computations() -> None:
    fleet, arrivals = hpa_chart.fleet("worker-heavy"), hpa_load.heavy(1)
    ours = Setup("work", Target(2), fleet.behavior, slots=2, least=1, most=4, drain_seconds=540.0, hours=8.0)
    naive = replace(ours, signal="LLEN", behavior=KUBERNETES, drain_seconds=30.0)

    assert simulate(ours, arrivals).hit < 10
    assert simulate(naive, arrivals).given_back > 30


# The model


def test_a_simulation_of_one_seed_is_always_the_same() -> None:
    arrivals = hpa_load.fan_outs(7, hours=0.5)
    setup = hpa_rows.chosen(hours=0.5)

    assert simulate(setup, arrivals) == simulate(setup, hpa_load.fan_outs(7, hours=0.5))
    assert arrivals != hpa_load.fan_outs(8, hours=0.5)


def test_a_fleet_runs_tasks_in_order_and_reckons_their_waits() -> None:
    setup = replace(hpa_rows.fixed(1), slots=2, hours=1.0)
    figures = simulate(setup, [Arrival(0.0, 10.0), Arrival(0.0, 30.0), Arrival(5.0, 10.0), Arrival(5.0, 1.0)])

    # Two slots: the third begins at 10, the fourth at 20.
    assert figures.wait_max_seconds == 15.0
    assert figures.pod_hours == 1.0
    assert figures.busy_share == pytest.approx(51 / 7200)


def test_a_new_pod_takes_nothing_before_it_has_started() -> None:
    setup = replace(
        hpa_rows.chosen(), slots=1, least=1, target=Target(1), behavior=Behavior(AT_ONCE, AT_ONCE), hours=1.0
    )
    figures = simulate(setup, [Arrival(0.0, 100.0), Arrival(0.0, 100.0)])

    assert figures.wait_max_seconds == 25.0


def test_a_task_longer_than_the_drain_is_given_back_and_ends_elsewhere() -> None:
    # Work of 30 asks for 3 pods; when the short ones have ended one is asked for, and the long one's pod has to go.
    setup = replace(
        hpa_rows.chosen(), signal="LLEN", target=Target(1), slots=1, least=1, most=3, drain_seconds=20.0, hours=1.0,
        behavior=Behavior(AT_ONCE, AT_ONCE),
    )  # fmt: skip
    figures = simulate(setup, [Arrival(0.0, 200.0) for _ in range(3)])

    assert figures.hit >= figures.given_back > 0
    assert figures.left_count == 0


def test_pods_that_have_not_started_go_first_and_then_the_youngest() -> None:
    old, young, starting = Pod(0.0, 4, is_ready=True), Pod(50.0, 4, is_ready=True), Pod(20.0, 4)
    fleet = Fleet(4, [old, young, starting])

    assert fleet.choose_leavers(2) == [starting, young]
    assert fleet.pods == [old]


def test_a_closed_gate_holds_its_tasks_and_lets_them_go_in_front() -> None:
    fleet = Fleet(4)
    fleet.close_gate()
    fleet.arrive(Arrival(1.0, 5.0, is_gated=True))
    fleet.arrive(Arrival(2.0, 6.0))
    assert ([task.seconds for task in fleet.waiting], len(fleet.held)) == ([6.0], 1)

    fleet.open_gate(9.0)

    assert [(task.seconds, task.waits_since) for task in fleet.waiting] == [(5.0, 9.0), (6.0, 2.0)]


def test_direction_flips_count_turns_and_not_steps() -> None:
    assert direction_flips([2, 4, 8, 8, 12]) == 0
    assert direction_flips([2, 4, 3, 3, 2, 5]) == 2
    assert direction_flips([2]) == 0


def test_the_report_has_every_row_in_each_form() -> None:
    results = closed()

    assert json.loads(json.dumps(hpa.document(1, results)))["pod_hours_saved_while_closed"] > 0.1
    assert all(item.row.name in hpa.markdown(results) and item.row.name in hpa.text(results) for item in results)


@pytest.mark.parametrize("name", ["work/16, window 600 s", *FLAPPING])
def test_the_page_shows_what_the_bench_says(name: str) -> None:
    page = (hpa_chart.VALUES.parents[1] / "docs" / "explanation" / "scaling-by-work.md").read_text(encoding="utf-8")
    bold = "**" if name not in FLAPPING else ""

    assert f"| {bold}{name}{bold} | {' | '.join(hpa.cells(standard(name)))} |" in page


def test_one_row_of_each_load_is_what_the_chart_does() -> None:
    found = [row.load for row in hpa_rows.rows() if row.is_chosen]

    assert sorted(found) == sorted(hpa_rows.LOADS)
