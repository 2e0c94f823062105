-- Which of the days that were just computed were not read to their end by all of their sources. The caller is the one writer.
WITH covered AS (
  DELETE FROM uncovered_days u WHERE u.org_id = :org_id AND u.day = ANY (CAST(:days AS date[]))
    AND u.day <> ALL (CAST(:uncovered AS date[])))
INSERT INTO uncovered_days (org_id, day) SELECT :org_id, unnest(CAST(:uncovered AS date[])) ON CONFLICT DO NOTHING
