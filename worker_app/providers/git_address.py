"""Where a repository is: reads what a person wrote, a clone address or a path, before anything is asked.

No secret passes: what stands in the user part is in no address, no identity and no message. Runs nothing, knows no record.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from worker_app import errors

HOST = re.compile(r"[a-z0-9][a-z0-9._-]*|\[[0-9a-f:.]+\]", re.IGNORECASE)
USER = re.compile(r"[a-z0-9_][a-z0-9._-]*", re.IGNORECASE)
SCP = re.compile(r"(?:(?P<user>[^@:/\s]+)@)?(?P<host>[^@:/\s]+):(?P<path>[^:@\s][^@]*)")
FORMS = "write https://host/owner/name, git@host:owner/name or the path of a repository"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a repository is cloned from, without any secret."""

    protocol: str  # https, ssh or file
    host: str  # with the port where an https address names one of its own; `localhost` for a path
    path: str  # below the host, without .git; an absolute path for `file`
    url: str  # what git is given

    @property
    def ext_id(self) -> str:
        """The identity of the repository: no user, no scheme, no `.git`."""
        return self.path if self.protocol == "file" else f"{self.host}/{self.path}"

    @property
    def full_name(self) -> str:
        """The name a person uses: owner and name, or the last part of a path."""
        return Path(self.path).name if self.protocol == "file" else self.path


def parse(name: str) -> Address:
    """Read a clone address or a path. Raises UsageError for what is neither, or for a protocol that is never spoken."""
    if not name or name.startswith("-") or not name.isprintable():
        raise _no_address(name, f"is no address; {FORMS}")
    if name.startswith(("/", "./", "../")) or name in {".", ".."}:
        return _from_path(Path(name))
    if "://" in name:
        return _from_url(name)
    if match := SCP.fullmatch(name):
        return _from_ssh(name, user=match["user"], host=match["host"], port=None, path=match["path"])
    if "::" not in name and Path(name).exists():
        return _from_path(Path(name))
    raise _no_address(name, f"is neither a clone address nor a path that exists; {FORMS}")


def _no_address(name: str, fault: str) -> errors.UsageError:
    # Everything up to the last @ may be a password, and so may what follows ? or #: neither is repeated to anyone.
    shown = re.split(r"[?#]", re.sub(r"(?s)(^|://).*@", r"\1***@", name))[0]
    return errors.UsageError(f"external_name {shown!r} {fault}")


def _from_path(path: Path) -> Address:
    absolute = str(path.resolve())
    return Address("file", "localhost", absolute.removesuffix("/.git").removesuffix(".git"), absolute)


def _from_url(name: str) -> Address:
    try:
        parts = urlsplit(name)
        port = parts.port
    except ValueError:  # its text repeats what may be a part of a password
        raise _no_address(name, f"has no host that can be read; {FORMS}") from None
    if parts.query or parts.fragment:
        raise _no_address(name, "holds a `?` or a `#`; leave out what follows it")
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
        return _from_path(Path(unquote(parts.path)))
    if parts.scheme == "ssh":
        return _from_ssh(name, user=parts.username, host=_bare_host(parts), port=port, path=parts.path)
    if parts.scheme != "https":
        raise _no_address(name, f"asks for the protocol {parts.scheme!r}, which is never spoken; use https or ssh")
    host = _checked(name, _bare_host(parts), HOST) + (f":{port}" if port not in {None, 443} else "")
    return Address("https", host, _repository_path(name, parts.path), f"https://{host}{parts.path}")


def _bare_host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host


def _from_ssh(name: str, *, user: str | None, host: str, port: int | None, path: str) -> Address:
    host = _checked(name, host, HOST).lower()
    login = f"{_checked(name, user, USER)}@" if user else ""
    cleaned = _repository_path(name, path)
    # The short form is kept: there a path is relative to the home of the user, in the long form it is not.
    url = f"ssh://{login}{host}{f':{port}' if port else ''}{path}" if "://" in name else f"{login}{host}:{path}"
    return Address("ssh", host, cleaned, url)


def _checked(name: str, text: str, form: re.Pattern[str]) -> str:
    if form.fullmatch(text) is None:
        raise _no_address(name, f"has no host or user that can be read; {FORMS}")
    return text


def _repository_path(name: str, path: str) -> str:
    cleaned = path.strip("/").removesuffix(".git").rstrip("/")
    if not cleaned or "@" in cleaned:  # a password with a / in it would end up here
        raise _no_address(name, f"names no repository; {FORMS}")
    return cleaned
