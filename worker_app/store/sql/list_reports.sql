-- Rendered reports as people see them, the newest first, without their bodies: those of one organisation
-- (report_outputs_newest), or whose id begins with a prefix, where given.
SELECT p.id, o.name AS org, p.scheduled_job_id, p.template, p.period_from, p.period_to, p.input_watermark, p.rendered_at
FROM report_outputs p JOIN orgs o ON o.id = p.org_id
WHERE (CAST(:org_id AS uuid) IS NULL OR p.org_id = :org_id)
  AND (CAST(:prefix AS text) IS NULL OR starts_with(CAST(p.id AS text), :prefix))
ORDER BY p.rendered_at DESC, p.id LIMIT :limit
