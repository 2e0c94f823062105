-- The first sources of the overview: those that cannot be read stand on top, so that none hides behind a long list.
SELECT s.id, o.name AS org, s.provider, s.external_name, s.state, s.state_reason
FROM sources s JOIN orgs o ON o.id = s.org_id
ORDER BY s.state NOT IN ('sso_required', 'inaccessible', 'gone'), s.external_name, s.id LIMIT :shown
