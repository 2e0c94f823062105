"""Where the API of a host is, when it is not at the usual address: the text of PROVIDER_API_URLS."""

import re
from collections import Counter
from urllib.parse import urlsplit

LOOPBACK = re.compile(
    r"localhost|127(\.[0-9]{1,3}){3}|::1"
)  # a token may go to these without TLS: it leaves no machine


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """Host and URL of each entry of `host=url,host=url`. Raises ValueError with every fault in one line."""
    entries = [entry.strip().partition("=") for entry in text.split(",") if entry.strip()]
    pairs = tuple((host.strip().lower(), url.strip().rstrip("/")) for host, _, url in entries)
    faults = [fault for host, url in pairs if (fault := _fault(host, url))]
    faults += [f"{host} is there {n} times" for host, n in Counter(host for host, _ in pairs).items() if n > 1]
    if faults:
        raise ValueError(f"it is `host=url,host=url`: {'; '.join(faults)}")
    return pairs


def _fault(host: str, url: str) -> str:
    """What is wrong with one entry; empty where nothing is."""
    try:
        parts = urlsplit(url)
        scheme, name, _ = parts.scheme, parts.hostname, parts.port
    except ValueError:  # brackets or a port that are none
        scheme, name = "", None
    if not host or "/" in host or not name:
        return "an entry has no host before its = or no URL behind it"
    if "@" in url or "?" in url or "#" in url:
        return f"{host} has a URL with a user, a query or a fragment"
    if scheme == "https" or (scheme == "http" and LOOPBACK.fullmatch(name)):
        return ""
    return f"{host} has a URL that is neither https nor http on this machine"
