"""Answers that are no success, in GitHub's words."""

from worker_app.demo.messages import Response

DOCUMENTATION = "https://docs.github.com/rest"


def refusal(status: int, message: str, **headers: str) -> Response:
    """An error as REST tells it. Underscores in header names become hyphens."""
    document = {"message": message, "documentation_url": DOCUMENTATION, "status": str(status)}
    return Response(status, document, {name.replace("_", "-"): value for name, value in headers.items()})


def not_found() -> Response:
    """For what is not there, and for what this credential may not see."""
    return refusal(404, "Not Found")


def bad_credentials() -> Response:
    """For a token that nobody has, or that is over."""
    return refusal(401, "Bad credentials")


def no_user_agent() -> Response:
    """For a request that does not say who sends it."""
    text = b"Request forbidden by administrative rules. Please make sure your request has a User-Agent header."
    return Response(403, headers={"content-type": "text/plain; charset=utf-8"}, body=text, is_misbehaviour=True)


def moved(url: str) -> Response:
    """For a repository that has another name by now; `url` asks by its number."""
    document = {"message": "Moved Permanently", "url": url, "documentation_url": f"{DOCUMENTATION}/#http-redirects"}
    return Response(301, document, {"location": url})


def sso_required(organisation: str) -> Response:
    """For a token that was not authorised for the organisation's single sign-on."""
    url = f"https://github.com/orgs/{organisation}/sso?authorization_request=AAAA"
    message = "Resource protected by organization SAML enforcement. You must grant your OAuth token access to this organization."
    return refusal(403, message, x_github_sso=f"required; url={url}")
