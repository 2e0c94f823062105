-- Give each row its new wrapping if it is still on the key that it was read with, and was not erased meanwhile. A row that somebody
-- holds at this moment is left for the next pass: nobody waits here, so nobody's remove or replace can deadlock with it. Primary key.
WITH wanted AS MATERIALIZED (
  SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS integer[]), CAST(:old_key_ids AS text[]),
                       CAST(:new_key_ids AS text[]), CAST(:wrapped AS bytea[])) AS t (id, version, old_key_id, new_key_id, wrapped)),
held AS MATERIALIZED (
  SELECT c.id, c.version FROM org_credentials c JOIN wanted w ON w.id = c.id AND w.version = c.version
  WHERE c.key_id = w.old_key_id AND c.state <> 'revoked'
  FOR NO KEY UPDATE OF c SKIP LOCKED)
UPDATE org_credentials c SET key_id = w.new_key_id, wrapped_dek = w.wrapped
FROM held h JOIN wanted w ON w.id = h.id AND w.version = h.version
WHERE c.id = h.id AND c.version = h.version
