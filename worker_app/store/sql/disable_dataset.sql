-- The provider has a dataset of a source switched off. Where its last complete walk ended is kept; `state_since` moves only when
-- the state does, `asked_at` with every answer.
INSERT INTO sync_cursors AS c (org_id, source_id, dataset, state, state_reason, state_since, asked_at)
SELECT org_id, id, :dataset, 'disabled', :reason, now(), now() FROM sources WHERE org_id = :org_id AND id = :source_id
ON CONFLICT (org_id, source_id, dataset, scope) DO UPDATE
SET state = 'disabled', state_reason = excluded.state_reason, asked_at = excluded.asked_at,
    state_since = CASE WHEN c.state = 'disabled' THEN c.state_since ELSE excluded.state_since END
