from structlog.testing import capture_logs

from worker_app import telemetry
from worker_app.gate.key import GateKey
from worker_app.gate.signals import Kind, Quota, RateSignal, ResetFormat, parse_reset
from worker_app.gate_events import GateEvents

KEY = GateKey("github", "acme", "ghe.test")


def untracked() -> float | None:
    return telemetry.WORKER.get_sample_value("dev_hops_gate_untracked", {"provider": "github", "host": "ghe.test"})


def test_host_that_counts_again_is_no_longer_told_to_count_nothing() -> None:
    events = GateEvents()
    events.told(KEY, RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 0),)))
    assert untracked() == 1
    events.told(KEY, RateSignal(Kind.OTHER, bucket="core"))
    assert untracked() == 1
    events.told(KEY, RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4900, 60.0),)))
    assert untracked() == 0


def test_header_that_was_cut_in_a_token_is_shown_without_it() -> None:
    cut = parse_reset(
        "soon, said canary-of-no-known-shape-0123456789-and-much-more", ResetFormat.SECONDS, None
    ).quarantined
    with capture_logs() as told:
        GateEvents().told(KEY, RateSignal(Kind.OK, bucket="core", quarantined=(cut, "1790000000000")))
    assert [event["value"] for event in told] == ["soon, said …", "1790000000000"]
