"""A reply, and what the book in memory learns from it: the steps of `observe.lua`, in their order."""

from worker_app.gate.book import Told
from worker_app.gate.key import WHOLE_KEY
from worker_app.gate.memory_state import LEAP, State
from worker_app.gate.policy import BucketPolicy
from worker_app.gate.signals import Kind, Quota

# Milliseconds, as in observe.lua.
HOUR, DAY = 3_600_000, 86_400_000
LONGEST, HASTY, SAME, GROWN = 900_000, 2_000, 2_000, 1_000


def refused(state: State, told: Told, now: int) -> tuple[int, int, int, bool]:
    """What is left of the window, refused generations, 1 for a new window or 2 for one that grew, whether it leaked."""
    name, numbers = told.signal.bucket, state.numbers
    ends, generation, fails = (state.get(kind, name) or 0 for kind in ("u", "g", "fails"))
    has_leaked = False
    if told.sent_ms > generation:
        has_leaked = ends > told.sent_ms and generation > 0
        fails += 1
        numbers.update({f"g:{name}": now, f"fails:{name}": fails})
        numbers.pop(f"tk:{name}", None)
        if name == WHOLE_KEY and told.signal.kind is not Kind.PRIMARY:
            most = told.max_conc * 1000
            numbers["conc"] = max(1000, min(most, numbers.get("conc", most)) // 2)
    elif ends <= now:
        numbers[f"g:{name}"] = now
    wanted = now + _after(told, fails, now) + told.guard_ms
    opened = 0
    if wanted > ends:
        opened = 1 if ends <= now else 2 if wanted > ends + GROWN else 0
        numbers[f"u:{name}"] = round(wanted)
        state.texts[f"y:{name}"] = told.text
    return max(ends, round(wanted)) - now, fails, opened, has_leaked


def _after(told: Told, fails: int, now: int) -> float:
    signal = told.signal
    after = None if signal.after is None else round(signal.after * 1000)
    if after is None and signal.after_at_ms is not None and signal.after_at_ms - now <= DAY:
        after = max(1000, signal.after_at_ms - now)
    if after is None:
        return float(min(LONGEST, told.default_after_ms * 2.0 ** (max(1, fails) - 1)))
    if signal.kind is Kind.PRIMARY and after <= HASTY and fails > 1:
        return max(after, min(2.0**fails * 1000, 60_000))
    return after


def take(state: State, quota: Quota, policy: BucketPolicy, sent_ms: int, now: int) -> None:
    """Believe what a reply says is left: of a newer window all of it, of the same one only what is less."""
    name, numbers = quota.bucket, state.numbers
    if quota.limit == 0:
        numbers[f"x:{name}"] = now + HOUR
        return
    if quota.remaining is None:
        return
    reset_in = None if quota.reset_in is None else round(quota.reset_in * 1000)
    if reset_in is None and quota.reset_at_ms is not None and -LEAP <= quota.reset_at_ms - now <= DAY:
        reset_in = max(0, quota.reset_at_ms - now)
    ends = state.get("W", name) or 0
    unsaid = ends if ends > now else now + round(policy.period * 1000)
    reset = unsaid if reset_in is None else now + reset_in
    limit = quota.limit or state.get("L", name) or quota.remaining
    is_latest, is_newer = sent_ms >= (state.get("S", name) or 0), ends <= now or reset > ends + SAME
    takes = (is_latest and limit > 0) if policy.model == "leaky" else is_newer
    if takes:
        fresh = {"L": limit, "R": quota.remaining, "W": reset}
        fresh |= {"O": now, "S": sent_ms} if policy.model == "leaky" else {}
        numbers.update({f"{kind}:{name}": number for kind, number in fresh.items()})
        numbers.pop(f"x:{name}", None)
    elif policy.model != "leaky" and reset >= ends - SAME:
        # A Date is cut to the second and the way of a reply takes time: the earliest reset is the nearest.
        numbers[f"R:{name}"] = min(quota.remaining, numbers.get(f"R:{name}", quota.remaining))
        numbers[f"W:{name}"] = min(reset, ends)


def succeeded(state: State, told: Told, now: int, live: int | None) -> None:
    """What a success shows: refusals are over, little is left, or the limit may grow. `live`: requests there were."""
    numbers, kind = state.numbers, told.signal.kind
    if kind is Kind.NEAR:
        reset = state.get("W", told.signal.bucket) or 0
        numbers[f"nr:{told.signal.bucket}"] = reset if reset > now else now + 60_000
    if kind not in {Kind.OK, Kind.NEAR}:
        return
    for name in told.buckets:
        if told.sent_ms > (state.get("u", name) or 0):
            numbers.pop(f"fails:{name}", None)
    most = told.max_conc * 1000
    conc = min(most, numbers.get("conc", most))
    if live is not None and conc < most and live * 2000 >= conc:
        numbers["conc"] = round(min(most, conc + 1_000_000 / conc))
