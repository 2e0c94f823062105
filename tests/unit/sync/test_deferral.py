import pytest

from worker_app import errors
from worker_app.gate.key import Reason
from worker_app.sync import deferral


def limited(
    retry_in: float, reason: Reason = Reason.WINDOW, fails: int = 0, provider: str = "github"
) -> errors.RateLimited:
    return errors.RateLimited(
        "closed", retry_in=retry_in, provider=provider, org_id="acme", host="github.com", bucket="core", reason=reason.value,
        detail="secondary: slow down", fails=fails,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("retry_in", "draw", "wait"), [(58, 0.0, 58), (58, 1.0, 63.8), (3600, 1.0, 3630), (3600, 0.5, 3615), (0, 1.0, 0)]
)
def test_window_is_waited_for_and_never_shortened(retry_in: float, draw: float, wait: float) -> None:
    assert deferral.wait_seconds(limited(retry_in), 7, draw) == pytest.approx(wait)


@pytest.mark.parametrize("reason", [Reason.CONCURRENCY, Reason.PACE, Reason.PROBE])
@pytest.mark.parametrize(("deferrals", "wait"), [(0, 5), (1, 10), (3, 40), (4, 60), (4000, 60)])
def test_wait_without_a_known_end_doubles_up_to_a_minute(reason: Reason, deferrals: int, wait: float) -> None:
    assert deferral.wait_seconds(limited(0.05, reason), deferrals, 0.0) == wait
    assert deferral.wait_seconds(limited(0.05, reason), deferrals, 1.0) == min(60, wait + 5)


def test_gate_that_is_away_is_waited_for() -> None:
    assert deferral.wait_seconds(errors.GateUnavailable("away", retry_in=40), 0, 1.0) == 44


@pytest.mark.parametrize(
    ("fails", "stalled_seconds", "hopeless"),
    [(3, 7200, True), (2, 90_000, False), (3, 7199, False), (0, 10**6, False)],
)
def test_batch_fails_only_if_refused_again_and_again_and_nothing_came(
    fails: int, stalled_seconds: float, hopeless: bool
) -> None:
    assert deferral.is_hopeless(limited(60, fails=fails), stalled_seconds) is hopeless


def test_wait_for_the_gate_is_never_hopeless() -> None:
    assert not deferral.is_hopeless(errors.GateUnavailable("away", retry_in=40), 10**6)


def test_reason_names_gate_bucket_and_the_word_of_the_provider() -> None:
    assert deferral.reason_of(limited(58)) == {
        "gate": "github on github.com", "bucket": "core", "reason": "window", "detail": "secondary: slow down",
    }  # fmt: skip
    assert deferral.reason_of(errors.GateUnavailable("away for 70 s", retry_in=40)) == {
        "reason": "outage", "detail": "away for 70 s",
    }  # fmt: skip
