-- The batches of a plan. Their ids are uuid5 of what they read, so planning again after a crash adds nothing.
INSERT INTO sync_batches (id, run_id, org_id, provider, source_id, dataset, window_start, window_end, queue)
SELECT t.id, :run_id, :org_id, :provider, t.source_id, t.dataset, t.window_start, t.window_end, t.queue
FROM unnest(CAST(:ids AS uuid[]), CAST(:source_ids AS uuid[]), CAST(:datasets AS text[]), CAST(:starts AS timestamptz[]),
            CAST(:ends AS timestamptz[]), CAST(:queues AS text[])) AS t (id, source_id, dataset, window_start, window_end, queue)
ORDER BY t.id ON CONFLICT (id) DO NOTHING
