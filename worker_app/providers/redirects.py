"""Redirects: where a reply sends us, and whether we go. Pure.

A rename or a transfer of a repository answers with one. Each hop is a request with its own permit; another origin gets neither
the credential nor a body.
Page: https://www.rfc-editor.org/rfc/rfc9110#name-redirection-3xx
"""

from collections.abc import Sequence

from worker_app.providers import http_address

STATUSES = frozenset({301, 302, 303, 307, 308})
SEE_OTHER = 303  # the answer is elsewhere and to be fetched: the only one that makes a GET of a POST
MOST_HOPS = 5


def target(base: http_address.Base, asked: Sequence[str], location: str | None, *, has_body: bool) -> str:
    """The URL that the redirect leads to; `asked` are those so far, the last of which was redirected.

    Raises ValueError, in words for a message that name no query, for one that is not to be followed: no or a wrong address,
    http, a loop, more than five hops, or a body for another origin.
    """
    if not location:
        raise ValueError("a redirect without an address")
    try:
        url = http_address.with_params(http_address.joined(asked[-1], location), {})
        there = http_address.origin(url)
    except ValueError:
        raise ValueError("a redirect to what is no address of a web server") from None
    if not base.may_lead_to(url):
        raise ValueError(f"a redirect to {there.scheme} on {there}, which is not followed: it is not encrypted")
    if has_body and not base.is_own(url):
        raise ValueError(f"a redirect to {there}, which must not see what was sent")
    if url in asked:
        raise ValueError("redirects that lead in a circle")
    if len(asked) > MOST_HOPS:
        raise ValueError(f"more than {MOST_HOPS} redirects")
    return url
