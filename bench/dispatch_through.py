"""Ours from end to end: due schedules to messages in Redis. Each process ticks and runs a relay, as one worker does."""

import time

from bench import dispatch_ours, dispatch_publish, dispatch_side
from bench.dispatch_side import Found, Gate, Place, Share


def work(place: Place, gate: Gate) -> Share:
    """Tick, wake the relay, and wait until nothing is due or owed any more: what the task `dispatch_scheduled_syncs` does."""
    with dispatch_ours.opened(place) as postgres:
        relay = dispatch_publish.relay_of(postgres, dispatch_publish.client_of(place))
        relay.start()
        start = gate()
        minted = dispatch_ours.tick_until_done(postgres, place.name)
        relay.wake()
        while dispatch_publish.is_owed(postgres):
            time.sleep(dispatch_publish.LOOK_SECONDS)
        share = start.share(minted, postgres.longest_ms)
        relay.stop()
        return share


def found(place: Place) -> Found:
    """One run, one ledger row and one message for each slot."""
    return {**dispatch_ours.counted(place, dispatch_ours.COUNTS), **dispatch_publish.found(place)}


if __name__ == "__main__":
    dispatch_side.main(dispatch_ours.seed, work, found)
