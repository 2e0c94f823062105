"""The default times add up to what gate 1 promises; how each part keeps its own time is tested where it is made."""

from worker_app import beat
from worker_app.settings import Settings
from worker_app.store import fence
from worker_app.sync import outbox


def default(name: str) -> float:
    return float(Settings.model_fields[name].default)


def relay_seconds() -> float:
    """The longest pause between two looks of a relay."""
    return default("outbox_poll_seconds") * (1 + outbox.SPREAD)


def test_slot_meets_a_tick_within_five_minutes() -> None:
    assert default("dispatch_interval_seconds") <= 300


def test_committed_message_is_looked_at_within_fifteen_seconds() -> None:
    assert relay_seconds() <= 15


def test_batch_of_a_killed_worker_is_offered_again_within_375_seconds() -> None:
    assert default("batch_lease_seconds") + default("rescue_interval_seconds") + relay_seconds() <= 375


def test_what_an_emptied_redis_held_is_offered_again_within_two_minutes() -> None:
    assert default("rescue_interval_seconds") + relay_seconds() <= 120


def test_killed_beat_is_followed_within_thirty_seconds() -> None:
    assert fence.TTL_SECONDS + beat.MAX_LOOP_SECONDS <= 30
    assert beat.MAX_LOOP_SECONDS < fence.TTL_SECONDS - fence.MARGIN_SECONDS  # it renews before it must stop
