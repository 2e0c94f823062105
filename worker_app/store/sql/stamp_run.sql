-- Note for a run the newest version of each credential that its open batches carry: sync_batches_run, then primary key. Also one
-- that was removed: what is planned with it is refused, and a later version does not slip in. Two batches that stamp the same run
-- at once get what the first of them wrote; only a plan and a retry, before which nothing of the run is open, stamp anew.
INSERT INTO run_credentials (run_id, credential_id, version, fingerprint)
SELECT :run_id, n.id, n.version, n.fingerprint
FROM (SELECT DISTINCT b.org_id, b.credential_id FROM sync_batches b
      WHERE b.run_id = :run_id AND b.state IN ('planned', 'queued', 'running', 'deferred')) AS c
CROSS JOIN LATERAL (SELECT o.id, o.version, o.fingerprint FROM org_credentials o
                    WHERE o.id = c.credential_id AND o.org_id = c.org_id ORDER BY o.version DESC LIMIT 1) AS n
ORDER BY n.id
ON CONFLICT (run_id, credential_id) DO UPDATE SET version = excluded.version, fingerprint = excluded.fingerprint
WHERE CAST(:is_new AS boolean)
