"""Ours: due schedules to runs, ledger rows and outbox rows, by the tick."""

from bench import dispatch_ours, dispatch_side

if __name__ == "__main__":
    dispatch_side.main(dispatch_ours.seed, dispatch_ours.work, dispatch_ours.found)
