-- One document per page instead of one parameter per value; its columns have the types of the table. An older page or a late
-- hook never overwrites newer data, and what stands there already is not written again. The names come from shapes.py.
INSERT INTO {table} AS t (org_id, provider, host, source_id, {columns})
SELECT :org_id, :provider, :host, :source_id, {columns}
FROM jsonb_populate_recordset(CAST(NULL AS {table}), CAST(:rows AS jsonb))
ON CONFLICT (org_id, provider, host, {key}) DO UPDATE SET {changes}
WHERE excluded.updated_at > t.updated_at OR excluded.updated_at = t.updated_at AND ({before}) IS DISTINCT FROM ({after})
