-- Where a complete walk began, never back. A dataset that was read to its end is switched on, whatever it was before.
INSERT INTO sync_cursors AS c (org_id, source_id, dataset, cursor_at, tips, last_complete_start, state_since)
SELECT org_id, id, :dataset, :at, CAST(:tips AS jsonb), :at, now() FROM sources WHERE org_id = :org_id AND id = :source_id
ON CONFLICT (org_id, source_id, dataset, scope) DO UPDATE
SET cursor_at = excluded.cursor_at, tips = excluded.tips, last_complete_start = excluded.last_complete_start,
    state = 'active', state_reason = NULL, asked_at = NULL,
    state_since = CASE WHEN c.state = 'active' THEN c.state_since ELSE excluded.state_since END
WHERE c.cursor_at IS NULL OR excluded.cursor_at >= c.cursor_at
