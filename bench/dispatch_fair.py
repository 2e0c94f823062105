"""Ours: how soon small organisations are served while a large one has thousands due, beside first-in-first-out."""

from datetime import timedelta

from bench import dispatch_ours, dispatch_side
from bench.dispatch_side import Found, Line, Place, lines
from worker_app.store import schedules, sources

SMALL_ORGS = 49
SMALL_DUE = 20  # each
SMALL_TOTAL = SMALL_ORGS * SMALL_DUE
LARGE = "large"
COUNTS = {
    # Every claim is a transaction, and the ledger keeps when it began.
    "fair_claims": "SELECT count(DISTINCT observed_at) FROM schedule_occurrences WHERE observed_at <= ("
    "SELECT max(o.observed_at) FROM schedule_occurrences o JOIN orgs ON orgs.id = o.org_id WHERE orgs.name <> 'large')",
    "fifo_claims": "SELECT ceil(max(place) / :size) FROM (SELECT org_id, row_number() OVER (ORDER BY scheduled_for, job_id) "
    "AS place FROM schedule_occurrences) o JOIN orgs ON orgs.id = o.org_id WHERE orgs.name <> 'large'",
}


def seed(place: Place) -> None:
    """One organisation with all but 980 of the schedules, and 49 with 20 each that are due a little later."""
    found = list(lines(place.count, place.at))
    with dispatch_ours.opened(place) as postgres, postgres.transaction() as tx:
        large = sources.add_org(tx, LARGE, "UTC").id
        for line in found[SMALL_TOTAL:]:
            dispatch_ours.add(tx, large, Line(line.cron, line.slot - timedelta(minutes=dispatch_side.SLOT_MINUTES)))
        for number in range(SMALL_ORGS):
            org = sources.add_org(tx, f"small-{number}", "UTC").id
            for line in found[number * SMALL_DUE : (number + 1) * SMALL_DUE]:
                dispatch_ours.add(tx, org, line)


def found(place: Place) -> Found:
    """After how many claims the last small organisation was served, and when first-in-first-out would have done it."""
    asked = {name: query.replace(":size", f"{schedules.CLAIM_SIZE}.0") for name, query in COUNTS.items()}
    return dispatch_ours.counted(place, asked)


if __name__ == "__main__":
    dispatch_side.main(seed, dispatch_ours.work, found)
