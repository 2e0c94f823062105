-- The fair claim of gate 1. Organisations are found by a loose index scan over scheduled_jobs_due; each gets an equal share
-- of the batch (at least 10), so one with thousands due cannot starve the others. The lock is taken inside a materialized
-- CTE: a sub-select with LIMIT and SKIP LOCKED can lock and return more rows than its limit. The returned columns are those
-- of the locking query, never of a join back to the table, which would read an older snapshot.
WITH RECURSIVE orgs_due AS (
  (SELECT org_id FROM scheduled_jobs WHERE enabled AND next_run_at <= now() ORDER BY org_id LIMIT 1)
  UNION ALL
  SELECT (SELECT s.org_id FROM scheduled_jobs s
          WHERE s.enabled AND s.next_run_at <= now() AND s.org_id > o.org_id ORDER BY s.org_id LIMIT 1)
  FROM orgs_due o WHERE o.org_id IS NOT NULL),
share AS MATERIALIZED (
  SELECT greatest(10, ceil(:batch / greatest(count(org_id), 1)::numeric))::bigint AS n FROM orgs_due),
due AS MATERIALIZED (
  SELECT c.* FROM orgs_due o CROSS JOIN LATERAL (
    SELECT y.*, row_number() OVER () AS turn FROM (
      SELECT s.id, s.org_id, s.kind, s.cron, s.tz, s.next_run_at, s.catchup, s.catchup_max, s.catchup_window, s.max_jitter_seconds
      FROM scheduled_jobs s
      WHERE s.enabled AND s.org_id = o.org_id AND s.next_run_at <= now()
        AND (s.quarantined_until IS NULL OR s.quarantined_until <= now())
      ORDER BY s.next_run_at, s.id LIMIT (SELECT n FROM share) FOR UPDATE SKIP LOCKED) y) c
  WHERE o.org_id IS NOT NULL ORDER BY c.turn, c.next_run_at LIMIT :batch)
SELECT now() AS at, due.* FROM due
