-- What was computed is all there is of these metrics on these days. Keys that had a row and have no evidence now are kept and
-- emptied, so that a reader that caches sees the change. computed_at is in milliseconds and later than any of these days before,
-- also where the clock was set back.
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r (
    metric text, definition_v smallint, grain text, grain_id text, day date, value double precision, num double precision,
    den double precision, n bigint, coverage real, input_watermark timestamptz)),
moment AS MATERIALIZED (
  SELECT greatest(date_trunc('milliseconds', clock_timestamp()), max(m.computed_at) + interval '1 millisecond') AS at
  FROM metric_daily m WHERE m.org_id = :org_id AND m.day = ANY (CAST(:days AS date[]))),
emptied AS (
  UPDATE metric_daily t SET value = NULL, num = 0, den = 0, n = 0, p50 = NULL, p90 = NULL, computed_at = moment.at
  FROM moment
  WHERE t.org_id = :org_id AND t.day = ANY (CAST(:days AS date[])) AND t.metric = ANY (CAST(:metrics AS text[])) AND t.n > 0
    AND NOT EXISTS (
      SELECT 1 FROM given g WHERE g.metric = t.metric AND g.grain = t.grain AND g.grain_id = t.grain_id AND g.day = t.day
        AND g.definition_v = t.definition_v)
  RETURNING 1)
INSERT INTO metric_daily AS t (org_id, metric, grain, grain_id, day, definition_v, num, den, n, value, coverage, input_watermark,
                               computed_at)
SELECT :org_id, metric, grain, grain_id, day, definition_v, num, den, n, value, coverage, input_watermark, moment.at
FROM given CROSS JOIN moment
ON CONFLICT (org_id, metric, grain, grain_id, day, definition_v) DO UPDATE
SET num = excluded.num, den = excluded.den, n = excluded.n, value = excluded.value, coverage = excluded.coverage,
    input_watermark = excluded.input_watermark, computed_at = excluded.computed_at
WHERE excluded.computed_at >= t.computed_at
