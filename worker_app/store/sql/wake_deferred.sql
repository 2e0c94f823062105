-- Let the deferred batches of one (organisation, provider, host) go on soon, because a person has opened its gate: each at a
-- random moment, never later than before, and its outbox row with it. The caller holds the cap key, so nobody cancels or
-- claims them meanwhile.
WITH waiting AS MATERIALIZED (
  SELECT b.id, least(b.not_before, now() + make_interval(secs => random() * CAST(:spread AS float8))) AS not_before
  FROM sync_batches b JOIN sources s ON s.org_id = b.org_id AND s.id = b.source_id
  WHERE b.org_id = :org_id AND b.provider = :provider AND s.host = :host AND b.state = 'deferred' AND b.not_before > now()
  ORDER BY b.id FOR UPDATE OF b SKIP LOCKED),
woken AS (
  UPDATE sync_batches b SET not_before = waiting.not_before
  FROM waiting WHERE b.id = waiting.id RETURNING b.id, b.wakes, b.not_before),
messages AS (
  UPDATE task_outbox m SET available_at = woken.not_before
  FROM woken WHERE m.dedupe = 'batch/' || woken.id || '/' || woken.wakes)
SELECT count(*) FROM woken
