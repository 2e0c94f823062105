-- The sources that name a credential without an active version, with its last name. A look of a person: it reads all sources.
SELECT o.name AS org, s.external_name,
       coalesce((SELECT c.name FROM org_credentials c WHERE c.id = s.credential_id AND c.org_id = s.org_id
                 ORDER BY c.version DESC LIMIT 1), CAST(s.credential_id AS text)) AS credential
FROM sources s JOIN orgs o ON o.id = s.org_id
WHERE s.credential_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM org_credentials c
                  WHERE c.id = s.credential_id AND c.org_id = s.org_id AND c.state = 'active')
ORDER BY o.name, s.external_name, s.id
