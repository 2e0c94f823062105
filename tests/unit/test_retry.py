from worker_app import retry


def test_backoff_doubles_between_half_and_whole_and_is_bounded() -> None:
    assert [retry.backoff_seconds(attempt, 1.0) for attempt in range(4)] == [15.0, 30.0, 60.0, 120.0]
    assert retry.backoff_seconds(0, 0.0) == 7.5
    assert retry.backoff_seconds(10_000, 1.0) == retry.LONGEST_BACKOFF_SECONDS
