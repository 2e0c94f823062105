"""What a caller gets that may not send now: the deferral, with the gate's reason and the provider's own word."""

from worker_app import errors
from worker_app.gate.key import WHOLE_KEY, Decision, GateKey

DETAIL_CHARS = 120  # of the provider's word: the state of a key stays small


def reason_text(reason: str, detail: str) -> str:
    """A reason and the provider's word as they are stored: `secondary: You have exceeded ...`.

    Half characters, which JSON may hold and Redis may not, become question marks.
    """
    text = f"{reason}: {detail[:DETAIL_CHARS]}" if detail else reason
    return text.encode(errors="replace").decode()


def rate_limited(key: GateKey, decision: Decision) -> errors.RateLimited:
    """The deferral that a refused request, or a caller who may not start one, becomes."""
    what = "" if decision.bucket in {"", WHOLE_KEY} else f"{decision.bucket} of "
    said = f" ({decision.detail})" if decision.detail else ""
    return errors.RateLimited(
        f"{what}{key.provider} on {key.host} may not be called for {decision.retry_in:.1f} s: {decision.reason.value}{said}",
        retry_in=decision.retry_in,
        provider=key.provider,
        org_id=key.org_id,
        host=key.host,
        bucket=decision.bucket,
        reason=decision.reason.value,
        detail=decision.detail,
        fails=decision.fails,
    )
