import json
from email.utils import formatdate
from typing import Any

import pytest

from bench import gate, gate_arrivals, gate_figures, gate_goals, gate_report
from bench.gate_arrivals import ACCEPTED, PRIMARY, SECONDARY, Arrival
from bench.gate_figures import Seen
from bench.gate_goals import GOALS, NOT_MEASURED, NOT_REACHED, REACHED
from bench.gate_policies import ENDPOINT, github, linear
from bench.gate_provider import FixedQuota, LeakyQuota, Provider, Shape, reply
from bench.gate_report import FLEET
from bench.gate_scenarios import OURS, SCENARIOS, SIDES, TRIPS
from bench.gate_sides import Answer
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.signals import Kind, RateSignal, Reply

NOON = 1_780_315_200.0  # epoch, a whole second


def arrival(
    at: float, outcome: str = ACCEPTED, *, way: float = 0.001, takes: float = 0.05, in_flight: int = 1
) -> Arrival:
    return Arrival(at - way, at, at + takes, in_flight, outcome)


def at(*moments: float, outcome: str = ACCEPTED) -> list[Arrival]:
    return [arrival(moment, outcome) for moment in moments]


# Arrivals


def test_episodes_are_the_refusals_between_acceptances() -> None:
    found = gate_arrivals.episodes(
        [*at(1.0), *at(2.0, 2.05, 2.2, outcome=SECONDARY), *at(3.0), *at(4.0, outcome=PRIMARY)]
    )

    assert [(episode.began_at, len(episode.refused), episode.late_count) for episode in found] == [
        (2.0, 3, 1),
        (4.0, 1, 0),
    ]


def test_episodes_are_none_without_a_refusal() -> None:
    assert gate_arrivals.episodes(at(1.0, 2.0)) == []


@pytest.mark.parametrize(
    ("moments", "most"), [([], 0), ([1.0], 1), ([1.0, 1.05, 1.09, 1.15, 3.0], 3), ([1.05, 1.0, 1.1], 3)]
)
def test_most_within_looks_at_every_stretch(moments: list[float], most: int) -> None:
    assert gate_arrivals.most_within(moments, 0.1001) == most


@pytest.mark.parametrize(
    ("moments", "windows"), [([], []), ([9.9, 10.0, 15.9, 16.0, 22.5], [3, 1, 1]), ([22.5], [0, 0, 1])]
)
def test_by_window_counts_from_the_start(moments: list[float], windows: list[int]) -> None:
    assert gate_arrivals.by_window(moments, 10.0, 6.0) == windows


def test_known_tells_what_started_after_the_first_record() -> None:
    refused = [arrival(moment, SECONDARY, way=0.01) for moment in (2.0, 2.03, 2.06, 2.3)]

    (found,) = gate_arrivals.known([*at(1.0), *refused, *at(5.0)], [2.055, 2.04])

    assert found.refused_count == 4
    assert found.delays == pytest.approx((0.01, 0.25))


def test_known_leaves_out_an_episode_that_nobody_recorded() -> None:
    assert list(gate_arrivals.known(at(2.0, outcome=SECONDARY), [])) == []


def test_full_rate_is_reached_when_the_last_seconds_are_matched() -> None:
    ramp = [1.0, 2.0, 2.5, 2.8]
    steady = [3.0 + number / 10 for number in range(120)]

    found = gate_arrivals.full_rate_after(at(*ramp, *steady), 1.0)

    assert found == pytest.approx(2.4, abs=0.11)


@pytest.mark.parametrize("moments", [[], [1.0]])
def test_full_rate_is_unknown_of_a_run_that_was_too_short(moments: list[float]) -> None:
    assert gate_arrivals.full_rate_after(at(*moments), 1.0) is None


@pytest.mark.parametrize(
    ("hidden", "own"),
    [
        ([], 2),
        ([2.5], 1),  # explains one refusal
        ([2.5, 2.6], 0),
        ([0.9, 1.0], 2),  # the reply at 2.05 has told of it
        ([3.5], 2),  # came later
    ],
)
def test_own_making_is_what_no_hidden_consumer_explains(hidden: list[float], own: int) -> None:
    assert gate_arrivals.own_making([*at(2.0), *at(3.0, 3.01, outcome=PRIMARY)], hidden) == own


# The provider


def test_fixed_quota_comes_back_with_the_window() -> None:
    quota = FixedQuota(2, 6.0, NOON)

    assert [quota.take(NOON + offset) for offset in (-0.1, 1.0, 5.9, 6.0)] == [True, True, False, True]
    assert (quota.remaining(NOON + 6.0), quota.reset_at(NOON + 6.0)) == (1, NOON + 12.0)


def test_leaky_quota_comes_back_all_the_time() -> None:
    quota = LeakyQuota(2, 4.0, NOON)

    assert [quota.take(NOON + offset) for offset in (0.0, 0.0, 1.9, 2.0)] == [True, True, False, True]
    assert quota.reset_at(NOON + 2.0) == NOON + 6.0
    assert quota.remaining(NOON + 100.0) == 2


def test_provider_blocks_above_its_limit_and_renews_the_block_at_each_hit() -> None:
    provider = Provider(Shape(most_in_flight=1), NOON)
    provider.arrive(NOON)

    assert provider.arrive(NOON).outcome == SECONDARY
    provider.leave()
    provider.leave()
    assert provider.arrive(NOON + 1.9).outcome == SECONDARY
    provider.leave()
    assert provider.arrive(NOON + 2.1).retry_after == 2
    provider.leave()
    assert provider.arrive(NOON + 4.2).outcome == ACCEPTED


def test_provider_refuses_what_the_quota_does_not_hold() -> None:
    provider = Provider(Shape(limit=1), NOON)
    provider.arrive(NOON)

    refused = provider.arrive(NOON + 0.5)

    assert (refused.outcome, refused.remaining, refused.reset_at, refused.retry_after) == (PRIMARY, 0, NOON + 6, None)


def test_provider_blocks_when_the_shape_says_so() -> None:
    provider = Provider(Shape(closed_until=1.0, blocks_at=(8.0,)), NOON)

    outcomes = [provider.arrive(NOON + offset).outcome for offset in (0.0, 2.0, 7.9, 8.1, 10.2)]

    assert outcomes == [SECONDARY, ACCEPTED, ACCEPTED, SECONDARY, ACCEPTED]


@pytest.mark.parametrize(
    ("shape", "seconds", "possible"),
    [(Shape(), 26.0, 1500), (Shape(), 24.0, 1200), (Shape("leaky"), 26.0, 1600)],
)
def test_possible_is_what_the_quota_gives_in_the_time(shape: Shape, seconds: float, possible: int) -> None:
    assert shape.possible(seconds) == possible


def replied(provider: Provider, now: float) -> Answer:
    head, _, body = reply(provider.arrive(now), provider.shape.model, now).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert headers["content-length"] == str(len(body))
    return Answer(int(status.split()[1]), headers, body)


def test_reply_is_githubs_with_whole_seconds() -> None:
    answer = replied(Provider(Shape(), NOON), NOON + 1.7)

    assert (answer.status, answer.is_refused) == (200, False)
    assert answer.headers["x-ratelimit-reset"] == str(int(NOON) + 6)
    assert answer.headers["x-ratelimit-remaining"] == "299"
    assert answer.headers["date"] == formatdate(NOON + 1, usegmt=True).lower()


@pytest.mark.parametrize(
    ("shape", "earlier", "kind", "bucket"),
    [
        (Shape(), 0, Kind.OK, None),
        (Shape(limit=1), 1, Kind.PRIMARY, "core"),
        (Shape(most_in_flight=1), 1, Kind.SECONDARY, "*"),
    ],
)
def test_reply_of_each_outcome_is_read_as_githubs(shape: Shape, earlier: int, kind: Kind, bucket: str | None) -> None:
    signal = signal_after(github(), shape, earlier)

    assert signal.kind is kind
    assert bucket in (None, signal.bucket)


@pytest.mark.parametrize(("earlier", "kind"), [(0, Kind.OK), (1, Kind.PRIMARY)])
def test_reply_of_a_leaky_quota_is_read_as_linears(earlier: int, kind: Kind) -> None:
    assert signal_after(linear(), Shape("leaky", limit=1), earlier).kind is kind


def signal_after(policy: ProviderPolicy, shape: Shape, earlier: int) -> RateSignal:
    """What the reply to the request after so many others, which still run, says to the policy."""
    provider = Provider(shape, NOON)
    for _ in range(earlier):
        provider.arrive(NOON)
    answer = replied(provider, NOON)
    return policy.classify(Reply(answer.status, answer.headers, answer.body, json.loads(answer.body), ENDPOINT))


# Figures


def seen(*arrivals: Arrival, **changes: Any) -> Seen:
    tally = {"asked": 6, "granted": 4, "recorded": [], "notes": {"leaked": 1}}
    given = {
        "began_at": 1.0, "arrivals": arrivals, "hidden": (), "tallies": (tally, tally), "trips": 10,
        "redis_seconds": 0.001, "memory_bytes": 500, "possible": 300, **changes,
    }  # fmt: skip
    return Seen(**given)


def figures(found: Seen) -> dict[str, Any]:
    return gate_figures.figures(SCENARIOS["quota"], OURS, found)


def test_figures_count_requests_by_outcome() -> None:
    found = figures(seen(*at(1.0, 1.1), *at(2.0, 2.5, outcome=SECONDARY), *at(3.0, outcome=PRIMARY)))

    assert (found["sent"], found["accepted"], found["refused_primary"], found["refused_secondary"]) == (5, 2, 1, 2)
    assert (found["episodes"], found["refused_late"]) == (1, 2)
    assert (found["acquires_per_grant"], found["trips_per_request"], found["redis_us_per_trip"]) == (1.5, 2.0, 100.0)
    assert found["notes"] == {"leaked": 2}


def test_figures_take_the_share_of_what_others_left() -> None:
    assert figures(seen(*at(1.0, 1.1, 1.2), possible=10, hidden=(1.0,) * 4))["share_percent"] == 50.0


def test_figures_of_a_run_in_which_nothing_happened_are_empty() -> None:
    found = figures(seen(tallies=(), trips=0))

    assert (found["sent"], found["acquires_per_grant"], found["trips_per_request"], found["full_rate_after"]) == (
        0,
        None,
        None,
        None,
    )


def test_figures_tell_how_a_fleet_set_out() -> None:
    found = figures(seen(*at(1.5, outcome=SECONDARY), *at(5.0, 5.05, 5.2), *at(6.0, outcome=SECONDARY)))

    assert (found["first_accepted_after"], found["sent_in_first_100ms"], found["refused_within_30s"]) == (4.0, 2, 1)


# Scenarios and goals


def test_every_scenario_runs_known_clients() -> None:
    assert set(TRIPS) == set(SIDES)
    assert all(set(scenario.sides) <= set(SIDES) for scenario in SCENARIOS.values())


def document(one_client: Any = None, **by_scenario: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [{"scenario": name, "side": OURS, "runs": runs, "failures": []} for name, runs in by_scenario.items()]
    return {"one_client": one_client, "fleet": rows}


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    return {row["says"]: row["verdict"] for row in gate_goals.judged(report)}


def test_goals_that_were_not_measured_say_so() -> None:
    assert set(verdicts(document()).values()) == {NOT_MEASURED}


@pytest.mark.parametrize(("shares", "verdict"), [([96.0, 97.0, 99.0], REACHED), ([96.9, 96.0, 99.0], NOT_REACHED)])
def test_goal_of_a_share_is_judged_by_the_median(shares: list[float], verdict: str) -> None:
    report = document(quota=[{"share_percent": share, "refused_primary_own": 0} for share in shares])

    assert verdicts(report)["share of a quota in windows"] == verdict


def test_goal_of_refusals_is_judged_by_the_worst_run() -> None:
    report = document(quota=[{"share_percent": 99, "refused_primary_own": count} for count in (0, 0, 1)])

    assert verdicts(report)["primary refusals of our own making, quota"] == NOT_REACHED


@pytest.mark.parametrize(
    ("late", "count", "found"),
    [([], 40, 0.0), ([7.0], 40, 7.0), ([7.0, 9.0], 150, 7.0), ([9.0], 200, 0.0), ([], 0, None)],
)
def test_start_after_a_refusal_is_a_percentile_of_all_refusals(
    late: list[float], count: int, found: float | None
) -> None:
    runs = [
        {"starts_after_known_ms": late, "recorded_refusals": count},
        {"starts_after_known_ms": [], "recorded_refusals": 0},
    ]

    assert gate_goals.late_start(document(refused=runs)) == found


def test_goal_of_the_full_rate_is_missed_by_a_run_that_never_reaches_it() -> None:
    runs = [{"refused_within_30s": 0, "sent_in_first_100ms": 1, "full_rate_after": value} for value in (3.0, None)]

    row = next(row for row in gate_goals.judged(document(herd=runs)) if row["says"] == "full rate after")

    assert (row["measured"], row["verdict"]) == (None, NOT_REACHED)


def single(**changes: Any) -> dict[str, Any]:
    calls = ("limits_fixed", "limits_sliding", "limits_moving", "pyrate", "acquire", "observe")
    times = {f"{name}_{kind}_us": 100.0 for name in calls for kind in ("p50", "p99")}
    inside = {"acquire_redis_us": 30.0, "observe_redis_us": 20.0, "trips_per_request": 2.0}
    ratios = {"acquire_by_limits": 1.5, "acquire_by_pyrate": 1.2, "acquire_and_observe_by_limits": 3.0}
    memory = {"idle_bytes": 240, "bytes_per_live": 41.0, "every_endpoint_bytes": 600, "limits_fixed": 72}
    checks = {"check_p50_us": 2.0, "check_p99_us": 3.0, "trips_per_second": 0.5}
    return {**times, **inside, **ratios, "memory": memory, "checks": checks, **changes}


def test_goal_of_the_check_compares_it_with_a_hit() -> None:
    assert verdicts(document(single()))["check beside a sliding hit, faster"] == REACHED
    slow = single(checks={"check_p50_us": 2.1, "check_p99_us": 3.0, "trips_per_second": 0.5})
    assert verdicts(document(slow))["check beside a sliding hit, faster"] == NOT_REACHED


@pytest.mark.parametrize(("now", "verdict"), [(1.79, "holds"), (1.81, "missed")])
def test_compared_fails_a_ratio_that_got_a_fifth_worse(now: float, verdict: str) -> None:
    rows = gate_goals.compared(document(single(acquire_by_limits=now)), document(single()))

    assert {row["ratio"]: row["verdict"] for row in rows}["acquire_by_limits"] == verdict


def test_compared_is_empty_where_one_client_was_not_measured() -> None:
    assert gate_goals.compared(document(), document(single())) == []


# The report


def full(**changes: Any) -> dict[str, Any]:
    run = {figure: 7 for _, figure in FLEET}
    report = document(single(), hidden=[{**run, "share_percent": 99.0, "refused_primary_own": 0}])
    report["fleet"].append({"scenario": "quota", "side": "limits", "runs": [], "failures": ["it | hung"]})
    return {**report, "goals": gate_goals.judged(report), "compared": [], **changes}


def test_markdown_holds_goals_fleet_and_calls() -> None:
    goals, fleet, calls = gate_report.markdown(full()).split("\n\n")

    assert goals.splitlines()[0] == "| goal | says | measured | aim | verdict |"
    assert len(goals.splitlines()) == 2 + len(GOALS)
    assert "| hidden | ours | 7 |" in fleet
    assert "| quota | limits | failed |" in fleet
    assert "| limits, fixed window | 100 | 100 | 72 |" in calls
    assert "| the gate, acquire | 100 | 100 | 240 |" in calls


def test_markdown_leaves_out_what_was_not_measured() -> None:
    report = {**document(), "goals": [], "compared": []}

    assert len(gate_report.markdown(report).splitlines()) == 2


def test_lines_say_each_goal() -> None:
    assert "G6  reached       share while a hidden consumer takes 20 %: 99 % (≥ 95 %)\n" in gate_report.lines(full())


def test_missed_names_goals_and_ratios() -> None:
    report = full(
        goals=[
            {"goal": "G1", "says": "trips", "verdict": NOT_REACHED},
            {"goal": "G2", "says": "state", "verdict": REACHED},
        ],
        compared=[
            {"ratio": "acquire_by_limits", "now": 3.0, "before": 2.0, "verdict": "missed"},
            {"ratio": "acquire_by_pyrate", "now": 1.0, "before": 1.0, "verdict": "holds"},
        ],
    )

    assert gate_report.missed(report) == ["G1: trips", "acquire_by_limits: 3, it was 2"]


@pytest.mark.parametrize(
    "arguments", [["--runs", "0"], ["--seconds", "1"], ["--seconds", "2.5"], ["--scenario", "none"]]
)
def test_command_line_refuses_what_cannot_be_measured(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        gate.main(arguments)

    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err
