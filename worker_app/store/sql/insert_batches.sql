-- The batches of a plan, each with the credential that its source has now, or with the id that stands for none. Their ids are
-- uuid5 of what they read, so planning again after a crash adds nothing.
INSERT INTO sync_batches (id, run_id, org_id, provider, source_id, dataset, window_start, window_end, queue, credential_id)
SELECT t.id, :run_id, :org_id, :provider, t.source_id, t.dataset, t.window_start, t.window_end, t.queue,
       coalesce(s.credential_id, :no_credential)
FROM unnest(CAST(:ids AS uuid[]), CAST(:source_ids AS uuid[]), CAST(:datasets AS text[]), CAST(:starts AS timestamptz[]),
            CAST(:ends AS timestamptz[]), CAST(:queues AS text[])) AS t (id, source_id, dataset, window_start, window_end, queue)
LEFT JOIN sources s ON s.org_id = :org_id AND s.id = t.source_id
ORDER BY t.id ON CONFLICT (id) DO NOTHING
