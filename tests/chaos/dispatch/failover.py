"""A failover that loses the last commits, as far as it concerns a message that is about to leave: its run never was."""

import re
from collections.abc import Sequence

from sqlalchemy import text

from worker_app.jobs import Message
from worker_app.store.postgres import Postgres

FIRST_MESSAGE = re.compile(r"run/([0-9a-f-]+)/dispatch/1")
RUNS = "ANY (CAST(:ids AS uuid[]))"
TEXTS = "ANY (CAST(:ids AS text[]))"

LOCK_JOBS = (
    f"SELECT 1 FROM scheduled_jobs WHERE id IN (SELECT job_id FROM sync_runs WHERE id = {RUNS}) ORDER BY id FOR UPDATE"
)
LOCK_RUNS = f"SELECT id::text AS id, job_id::text AS job_id FROM sync_runs WHERE id = {RUNS} AND job_id IS NOT NULL "
LOCK_RUNS += "AND state = 'queued' ORDER BY id FOR UPDATE"

# the database is back where it was before the commit: the job is due, ledger, run and outbox know nothing, nor does the record
STAMP_BACK = f"""
UPDATE scheduled_jobs j SET next_run_at = r.slot
FROM (SELECT job_id, min(scheduled_for) AS slot FROM sync_runs WHERE id = {RUNS} GROUP BY job_id) r WHERE j.id = r.job_id"""
FORGET_SLOTS = f"""
DELETE FROM schedule_occurrences o USING sync_runs r
WHERE r.id = {RUNS} AND o.job_id = r.job_id AND o.scheduled_for = r.scheduled_for"""
FORGET_RECORD = f"""
DELETE FROM chaos_audit WHERE id = {TEXTS} OR id IN (SELECT job_id::text FROM sync_runs WHERE id = {RUNS})"""
NOTE = "INSERT INTO chaos_audit (what, id) SELECT 'forgotten', unnest(CAST(:ids AS text[]))"
FORGET_MESSAGES = f"DELETE FROM task_outbox WHERE kwargs ->> 'run_id' = {TEXTS}"
FORGET_RUNS = f"DELETE FROM sync_runs WHERE id = {RUNS}"
FORGET = (STAMP_BACK, FORGET_SLOTS, FORGET_RECORD, NOTE, FORGET_MESSAGES, FORGET_RUNS)


def lose_commits(postgres: Postgres, messages: Sequence[Message]) -> list[str]:
    """Undo the tick for every first message of a scheduled run among these; returns the jobs that are due again."""
    named = [found.group(1) for message in messages if (found := FIRST_MESSAGE.fullmatch(message.dedupe))]
    with postgres.transaction() as tx:
        tx.execute(text(LOCK_JOBS), {"ids": named})
        rows = tx.execute(text(LOCK_RUNS), {"ids": named}).all()
        for statement in FORGET if rows else ():
            tx.execute(text(statement), {"ids": [row.id for row in rows]})
    return sorted({row.job_id for row in rows})
