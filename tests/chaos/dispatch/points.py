"""The crash table of gate 1 as data: where a process is killed, and within which time what it left is over.

Times are seconds, shortened from production: a tick every 300, a relay's look every 12 to 15, an outbox claim of 30, a lease
of 300, a rescue every 60.
"""

from dataclasses import dataclass

TICK_SECONDS = 0.5
RELAY_SECONDS = 0.5
CLAIM_SECONDS = 2.0  # the 30 stand in SQL: a trigger of the tests divides them
LEASE_SECONDS = 2
RESCUE_SECONDS = 0.5
SLACK_SECONDS = 6.0  # for a machine of two cores that is busy

REDELIVERY = 1.0  # of what a dead consumer held; a broker takes its visibility timeout
AGAIN = LEASE_SECONDS + RESCUE_SECONDS + RELAY_SECONDS
# others may have gone on between the commit and the kill, or before a kill that touches what is not the process's own
MAYBE_BEFORE = ("1-tick-taken", "5-commit-sent", "6-committed", "12-finishing", "12-commit-sent", "14-flushall")
CLOSED = ("succeeded", "partial", "failed", "cancelled", "lost")


@dataclass(frozen=True, slots=True)
class Point:
    """One moment in the life of a process.

    What the dead process left is over when the audit table tells of each of the things it held, after the kill: one of
    `what`, and where that is a run or a batch one of `states` (none: any). Sent again is a message of that run or batch.
    """

    name: str
    within_seconds: float
    what: tuple[str, ...]
    states: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The row of the crash table."""
        return int(self.name.split("-")[0])


LEDGER, SENT, SENT_AGAIN, RUN, BATCH, ARMED = "ledger", "sent", "sent again", "run", "batch", "armed"
PLANNED = ("running", "finishing", *CLOSED)
TAKEN = ("running", *CLOSED)
POINTS = {
    point.name: point
    for point in (
        Point("1-tick-taken", TICK_SECONDS, (LEDGER,)),
        Point("2-locked", TICK_SECONDS, (LEDGER,)),
        Point("3-computed", TICK_SECONDS, (LEDGER,)),
        Point("4-written", TICK_SECONDS, (LEDGER,)),
        Point("5-commit-sent", TICK_SECONDS, (LEDGER,)),
        Point("5-commit-torn", TICK_SECONDS, (LEDGER,)),
        Point("6-committed", RELAY_SECONDS, (SENT,)),
        Point("7-claimed", CLAIM_SECONDS + RELAY_SECONDS, (SENT,)),
        Point("8-published", CLAIM_SECONDS + RELAY_SECONDS, (SENT,)),
        Point("9-planning", AGAIN, (RUN, SENT_AGAIN), PLANNED),
        Point("9-finishing", REDELIVERY, (RUN, SENT_AGAIN), CLOSED),  # one transaction takes and ends: no lease stays
        Point("9-computing", AGAIN, (RUN, SENT_AGAIN), CLOSED),
        Point("10-planned", AGAIN, (RUN, SENT_AGAIN), PLANNED),
        Point("11-claimed", AGAIN, (BATCH, SENT_AGAIN), TAKEN),
        Point("11-page-open", AGAIN, (BATCH, SENT_AGAIN), TAKEN),
        Point("11-page", AGAIN, (BATCH, SENT_AGAIN), TAKEN),
        Point("11-closed", AGAIN, (BATCH, SENT_AGAIN), TAKEN),
        Point("11-last", AGAIN, (BATCH, SENT_AGAIN), TAKEN),
        Point("12-finishing", RELAY_SECONDS, (SENT_AGAIN,)),
        Point("12-commit-sent", RELAY_SECONDS, (SENT_AGAIN,)),
        Point("13-failover", TICK_SECONDS, (LEDGER,)),
        Point("14-flushall", RESCUE_SECONDS + RELAY_SECONDS, (RUN, BATCH, ARMED, SENT_AGAIN)),
    )
}
NUMBERS = range(1, 15)
