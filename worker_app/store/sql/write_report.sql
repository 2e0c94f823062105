-- One rendered report; the same id rendered again takes the place of the one before. The key's index finds it.
INSERT INTO report_outputs (org_id, id, scheduled_job_id, template, period_from, period_to, body_markdown, body, input_watermark,
                            rendered_at)
VALUES (:org_id, :id, :scheduled_job_id, :template, :period_from, :period_to, :body_markdown, CAST(:body AS jsonb),
        :input_watermark, now())
ON CONFLICT (org_id, id) DO UPDATE SET scheduled_job_id = excluded.scheduled_job_id, template = excluded.template,
  period_from = excluded.period_from, period_to = excluded.period_to, body_markdown = excluded.body_markdown,
  body = excluded.body, input_watermark = excluded.input_watermark, rendered_at = excluded.rendered_at
