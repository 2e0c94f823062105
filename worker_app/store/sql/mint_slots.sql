-- Gate 1's only write: run, ledger row, outbox row and the job's new stamp in one statement, after the claim that locked the
-- jobs. A conflict on sync_runs means that a run of this job is active (sync_runs_one_active) or that this slot was minted
-- before (its uuid5 id). A slot that takes the place of one that waits for the active run counts that one as skipped. No CTE
-- may update a row that another CTE of the statement inserted; that fixes their order.
WITH stamps AS (
  SELECT * FROM unnest(CAST(:stamped_ids AS uuid[]), CAST(:next_at AS timestamptz[])) AS t (job_id, next_at)),
i AS (
  SELECT t.*, j.org_id, j.kind, j.provider, j.params, j.overlap, j.buffered_slot
  FROM unnest(CAST(:job_ids AS uuid[]), CAST(:slots AS timestamptz[]), CAST(:run_ids AS uuid[]), CAST(:mint AS boolean[]),
              CAST(:skipped AS integer[]), CAST(:send_at AS timestamptz[])) AS t (job_id, slot, run_id, mint, skipped, send_at)
  JOIN scheduled_jobs j ON j.id = t.job_id),
fresh AS (  -- slots that the ledger does not hold yet
  SELECT * FROM i WHERE NOT EXISTS (
    SELECT 1 FROM schedule_occurrences o WHERE o.job_id = i.job_id AND o.scheduled_for = i.slot)),
r AS (
  INSERT INTO sync_runs (id, job_id, scheduled_for, org_id, kind, provider, params, trigger, exclusive_key, wakes, deadline_at)
  SELECT run_id, job_id, slot, org_id, kind, provider, params, 'schedule', CASE WHEN overlap <> 'allow' THEN job_id END, 1,
         send_at + interval '24 hours'  -- from when it may begin: jitter may be a day
  FROM fresh WHERE mint ON CONFLICT DO NOTHING RETURNING id),
decided AS (
  SELECT f.*, CASE WHEN NOT f.mint THEN 'skipped_catchup' WHEN r.id IS NOT NULL THEN 'minted'
                   WHEN f.overlap IN ('buffer_one', 'cancel_other') THEN 'buffered' ELSE 'skipped_overlap' END AS outcome,
         r.id AS minted_id
  FROM fresh f LEFT JOIN r ON r.id = f.run_id),
l AS (
  INSERT INTO schedule_occurrences (job_id, scheduled_for, org_id, outcome, skipped_slots, run_id, dispatcher)
  SELECT job_id, slot, org_id, outcome, skipped + (outcome = 'buffered' AND buffered_slot IS NOT NULL)::int, minted_id, :dispatcher
  FROM decided ON CONFLICT DO NOTHING RETURNING job_id, scheduled_for, outcome, skipped_slots),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs, available_at)
  SELECT 'run/' || f.run_id || '/dispatch/1', f.org_id, d.task, d.queue, jsonb_build_object('run_id', f.run_id), f.send_at
  FROM r JOIN fresh f ON f.run_id = r.id
  JOIN (VALUES ('sync', 'dispatch_sync_run', 'sync'), ('metrics', 'compute_daily_metrics', 'metrics'),
               ('report', 'render_report', 'reports')) AS d (kind, task, queue) ON d.kind = f.kind
  RETURNING id),
c AS (
  UPDATE sync_runs a SET cancel_requested_at = now()
  FROM l JOIN i ON i.job_id = l.job_id AND i.slot = l.scheduled_for
  WHERE l.outcome = 'buffered' AND i.overlap = 'cancel_other' AND a.exclusive_key = l.job_id
    AND a.state IN ('queued', 'planning', 'running') AND a.cancel_requested_at IS NULL
  RETURNING a.id),
u AS (
  UPDATE scheduled_jobs s
  SET next_run_at = n.next_at, buffered_slot = coalesce(b.slot, s.buffered_slot), fault = NULL, fault_count = 0,
      quarantined_until = NULL
  FROM stamps n
  LEFT JOIN (SELECT job_id, max(scheduled_for) AS slot FROM l WHERE outcome = 'buffered' GROUP BY job_id) b USING (job_id)
  WHERE s.id = n.job_id RETURNING s.id)
SELECT (SELECT count(*) FROM i) AS slots, (SELECT count(*) FROM i) - (SELECT count(*) FROM l) AS repeated,
       (SELECT count(*) FROM l WHERE outcome = 'minted') AS minted,
       (SELECT count(*) FROM l WHERE outcome = 'buffered') AS buffered,
       (SELECT count(*) FROM l WHERE outcome = 'skipped_overlap') AS skipped_overlap,
       (SELECT coalesce(sum(skipped_slots), 0)::int + (count(*) FILTER (WHERE outcome = 'skipped_catchup'))::int FROM l) AS skipped_catchup,
       (SELECT count(*) FROM o) AS armed, (SELECT count(*) FROM c) AS cancelled, (SELECT count(*) FROM u) AS stamped
