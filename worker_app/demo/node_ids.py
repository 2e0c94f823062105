"""Global node ids in GitHub's form: a prefix for the type, then a packed pair of repository and number, in URL-safe Base64."""

import base64


def node_id(prefix: str, *numbers: int) -> str:
    """The id of an object: `node_id("PR", repository_id, pull_id)`."""
    packed = bytes([0x90 + len(numbers) + 1, 0]) + b"".join(map(_packed, numbers))
    return f"{prefix}_{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def _packed(number: int) -> bytes:
    if number < 2**32:
        return b"\xce" + number.to_bytes(4)
    return b"\xcf" + number.to_bytes(8)
