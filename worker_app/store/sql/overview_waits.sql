-- What the batches of some open runs wait for (sync_batches_run), together where they wait for the same; of each the first to go on.
SELECT run_id, state, count(*) AS batches, min(not_before) AS not_before, defer_reason ->> 'gate' AS gate,
       defer_reason ->> 'bucket' AS bucket, min(coalesce(defer_reason ->> 'detail', defer_reason ->> 'reason')) AS detail
FROM (SELECT run_id, state, CASE WHEN state IN ('queued', 'deferred') THEN not_before END AS not_before,
             CASE WHEN state = 'deferred' THEN defer_reason END AS defer_reason
      FROM sync_batches WHERE run_id = ANY (CAST(:run_ids AS uuid[])) AND state IN ('planned', 'queued', 'deferred')) b
GROUP BY run_id, state, gate, bucket ORDER BY run_id, state, min(not_before), gate, bucket
