from worker_app.demo.limits import Limits, Rules, Verdict


def arrive(limits: Limits, now: float, *, bucket: str = "core", endpoint: str = "GET /x", cost: int = 1) -> Verdict:
    return limits.arrive("demo", bucket, endpoint, cost=cost, points=1, now=now)


def passes(limits: Limits, now: float, **more: str) -> bool:
    verdict = arrive(limits, now, **more)  # type: ignore[arg-type]
    limits.leave("demo")
    return verdict.refused_by is None


def test_limits_refuse_above_the_quota_until_the_window_ends() -> None:
    limits = Limits(Rules(core=2, period=6))
    assert [passes(limits, 100.4), passes(limits, 101.0), passes(limits, 105.9)] == [True, True, False]
    assert limits.state("demo", "core", 105.9) == (2, 0, 2, 106)
    assert passes(limits, 106.0)


def test_limits_begin_a_window_on_a_whole_second_with_its_first_request() -> None:
    limits = Limits(Rules(core=2, period=6))
    passes(limits, 100.9)
    state = limits.state("demo", "core", 100.9)
    assert state is not None
    assert state[3] == 106


def test_limits_can_refuse_beyond_the_named_reset() -> None:
    limits = Limits(Rules(core=1, period=6, reset_lag=0.5))
    assert [passes(limits, moment) for moment in (100.0, 106.4, 106.5)] == [True, False, True]


def test_limits_count_buckets_and_credentials_apart() -> None:
    limits = Limits(Rules(core=1, graphql=1))
    assert passes(limits, 100.0)
    assert passes(limits, 100.0, bucket="graphql", endpoint="graphql")
    assert limits.arrive("other", "core", "GET /x", cost=1, points=1, now=100.0).refused_by is None
    assert not passes(limits, 100.0)


def test_limits_give_back_what_cost_nothing() -> None:
    limits = Limits(Rules(core=1))
    passes(limits, 100.0)
    limits.give_back("demo", "core", 1)
    assert passes(limits, 100.0)


def test_limits_refuse_too_many_at_once_and_everything_while_blocked() -> None:
    limits = Limits(Rules(concurrency=1, retry_after=2))
    assert arrive(limits, 100.0).refused_by is None
    second = arrive(limits, 100.0)
    assert second.is_secondary
    assert second.in_flight == 2
    limits.leave("demo")
    limits.leave("demo")
    assert [passes(limits, moment) for moment in (101.0, 101.9, 102.0)] == [False, False, True]


def test_limits_renew_a_block_only_where_the_rules_say_so() -> None:
    for renews, is_open in ((True, False), (False, True)):
        limits = Limits(Rules(points=0, retry_after=2, renews=renews))
        assert not passes(limits, 100.0)
        assert not passes(limits, 101.5)
        limits.rules = Rules(points=10, retry_after=2, renews=renews)
        assert passes(limits, 102.5) == is_open


def test_limits_bound_the_points_of_each_endpoint_in_a_minute() -> None:
    limits = Limits(Rules(points=2, retry_after=1, minute=60))
    assert passes(limits, 100.0)
    assert passes(limits, 100.0)
    assert passes(limits, 100.0, endpoint="GET /y")
    assert not passes(limits, 100.0)
    assert passes(limits, 160.0)


def test_limits_know_who_came_late() -> None:
    limits = Limits(Rules(core=1, period=10))
    passes(limits, 100.0)
    passes(limits, 101.0)
    (episode,) = limits.episodes
    episode.told_at = 101.5
    passes(limits, 101.4)
    passes(limits, 102.0)
    assert (episode.bucket, episode.refused, episode.late) == ("core", 3, 1)


def test_limits_without_a_quota_never_refuse() -> None:
    limits = Limits(Rules(core=None))
    assert all(passes(limits, 100.0 + number / 1000) for number in range(800))
    assert limits.state("demo", "core", 101.0) is None


def test_limits_can_be_closed_by_hand() -> None:
    limits = Limits(Rules(core=10, period=60))
    limits.close("demo", "core", until=0.0, now=100.0)
    assert not passes(limits, 101.0)
    limits.close("demo", "*", until=200.0, now=161.0)
    assert not passes(limits, 199.0)
    assert passes(limits, 200.0)
