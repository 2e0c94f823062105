-- One document per page instead of one parameter per value. An older page never overwrites newer data.
INSERT INTO repositories AS t (org_id, provider, host, ext_id, source_id, updated_at, full_name, default_branch, is_archived)
SELECT :org_id, :provider, :host, r.ext_id, :source_id, :updated_at, r.full_name, r.default_branch, r.is_archived
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r (ext_id text, full_name text, default_branch text, is_archived boolean)
ON CONFLICT (org_id, provider, host, ext_id) DO UPDATE
SET source_id = excluded.source_id, updated_at = excluded.updated_at, full_name = excluded.full_name,
    default_branch = excluded.default_branch, is_archived = excluded.is_archived
WHERE excluded.updated_at >= t.updated_at
