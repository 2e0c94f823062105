"""From facts to findings: which versions of credentials a run or a batch was planned with. Pure."""

from collections.abc import Iterable
from uuid import UUID

from worker_app.store.explain import PlannedCredential
from worker_app.sync.explain_findings import Finding, short


def credential_findings(planned: Iterable[PlannedCredential], run_id: UUID) -> list[Finding]:
    """What the requests are signed with; a version that was revoked is named as the reason why they are refused."""
    return [_finding(item, run_id) for item in planned]


def _finding(planned: PlannedCredential, run_id: UUID) -> Finding:
    named = f"version {planned.version} of credential {planned.name!r} for {planned.host}"
    if planned.state != "revoked":
        return Finding("credential", f"it was planned with {named}")
    text = f"it was planned with {named}, which was revoked: what is still to be read with it fails"
    return Finding("credential_revoked", text, remedy=f"when its run is over, dev-hops runs retry {short(run_id)}")
