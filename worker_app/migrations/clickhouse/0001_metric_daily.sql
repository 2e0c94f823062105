-- One row for each computation of a key; the newest `computed_at` counts. Readers say FINAL and never sum raw rows.
CREATE TABLE IF NOT EXISTS metric_daily (
  org_id UUID, metric LowCardinality(String), grain LowCardinality(String), grain_id String, day Date32, definition_v UInt16,
  num Float64, den Float64, n UInt64, p50 Nullable(Float64), p90 Nullable(Float64), value Nullable(Float64), coverage Float32,
  input_watermark Nullable(DateTime64(6, 'UTC')), computed_at DateTime64(3, 'UTC'))
ENGINE = ReplacingMergeTree(computed_at)
PARTITION BY toYYYYMM(day)
ORDER BY (org_id, metric, grain, grain_id, day, definition_v)
