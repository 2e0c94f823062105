-- Note that a version was used; once an hour is enough, and nobody waits for another one that notes the same.
WITH noted AS MATERIALIZED (
  SELECT id, version FROM org_credentials WHERE id = :id AND org_id = :org_id AND version = :version
  FOR NO KEY UPDATE SKIP LOCKED)
UPDATE org_credentials c SET last_used_at = now() FROM noted n WHERE c.id = n.id AND c.version = n.version
