-- The name that a source had until now goes into its history; its row, its records and its schedules stay. The caller holds the
-- row's lock, taken in an earlier statement, so that the end of the name before is seen here.
WITH old AS MATERIALIZED (
  SELECT s.external_name, coalesce(s.first_seen, s.created_at) AS first_seen FROM sources s
  WHERE s.org_id = :org_id AND s.id = :id AND s.external_name <> :name),
h AS (
  INSERT INTO source_names (org_id, source_id, external_name, seen_from, seen_to)
  SELECT :org_id, :id, old.external_name, coalesce(
    (SELECT max(n.seen_to) FROM source_names n WHERE n.org_id = :org_id AND n.source_id = :id), old.first_seen), clock_timestamp()
  FROM old)
UPDATE sources s SET external_name = :name, last_seen = now() FROM old WHERE s.org_id = :org_id AND s.id = :id
