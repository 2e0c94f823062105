"""Where the API of a provider is, told from the host that people see. Pure.

Pages: https://docs.gitlab.com/api/rest/, https://developer.atlassian.com/cloud/jira/platform/rest/v3/intro/,
https://linear.app/developers/graphql
"""

from collections.abc import Mapping

from worker_app.providers import github_address


def base_url(provider: str, host: str, overrides: Mapping[str, str]) -> str:
    """The base URL of the API; `overrides` holds that of hosts that have another. GitHub's is the one of REST."""
    if provider == "github":
        return github_address.api(host, overrides).rest
    return overrides.get(host, _usual(provider, host)).rstrip("/")


def _usual(provider: str, host: str) -> str:
    return {"gitlab": f"https://{host}/api/v4", "jira": f"https://{host}", "linear": f"https://api.{host}"}[provider]
