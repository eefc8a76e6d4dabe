"""Address, key, and usage limits of a language model behind an endpoint."""

import os
import re
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from jaxaug.core import typed
from jaxaug.core.errors import UserError
from jaxaug.core.ranges import Range

PREFIX = "openai:"
"""Prefix of the names of models behind an endpoint."""
KEY_VARIABLE = "OPENAI_API_KEY"
_EXAMPLE = "such as --endpoint http://localhost:8000/v1"
_CHAT = "/chat/completions"
# Shorter keys, such as "none" for a local server, are no secrets and may be words.
_SECRET = 8


def is_endpoint(model: object) -> bool:
    """Returns whether a model name stands for a model behind an endpoint."""
    return isinstance(model, str) and model.startswith(PREFIX)


@dataclass(frozen=True)
class Server:
    """One model of a server.

    Attributes:
        url: base address; see `address`.
        max_requests: maximum HTTP requests of this process, including repeated ones;
            None means no limit.
        prices: dollars per million tokens of input and of output; None if unknown.
        retries: maximum repetitions of a request after temporary failures.
        timeout: seconds from the start of a request to the end of its reply.
    """

    model: str
    url: str
    key_variable: str = KEY_VARIABLE
    max_requests: Annotated[int, Range(1)] | None = None
    prices: Annotated[tuple[float, float], Range(0)] | None = None
    concurrent: Annotated[int, Range(1)] = 8
    retries: Annotated[int, Range(0)] = 5
    timeout: Annotated[float, Range(0, 86_400, above=True)] = 300.0

    def __post_init__(self) -> None:
        """Raises `UserError` if a field is out of range."""
        if not self.model.strip():
            raise UserError(
                f"model {PREFIX!r}: names no model. Write {PREFIX}NAME, with the name "
                "that the server knows."
            )
        typed.check_fields(self)

    @property
    def name(self) -> str:
        """Name of the model in commands and records."""
        return PREFIX + self.model

    def key(self) -> str:
        """Returns the key, or an empty text if its variable is not set.

        Raises:
            UserError: a variable other than the default one is not set, or the value
                cannot be a key.
        """
        key = os.environ.get(self.key_variable, "").strip()
        if not key and self.key_variable != KEY_VARIABLE:
            raise UserError(
                f"${self.key_variable} is not set; it holds the key of {self.url}. "
                f"Run `export {self.key_variable}=...`."
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UserError(
                f"${self.key_variable} holds no key: it contains a blank or a "
                "non-ASCII character. Set it to the key alone."
            )
        return key

    def hidden(self, text: str) -> str:
        """Returns a text of the server with the key masked; some servers repeat it.

        Characters of the key may be escapes of JSON. A JSON text inside a string has
        escapes of escapes, which begin with several backslashes.
        """
        key = os.environ.get(self.key_variable, "").strip()
        if len(key) < _SECRET:
            return text
        # A match begins at the first of several backslashes: linear time.
        letters = (
            rf"\\*(?:{re.escape(letter)}|u00(?i:{ord(letter):02x}))" for letter in key
        )
        return re.sub(rf"(?<!\\){''.join(letters)}", "***", text)


def address(url: str | None) -> str:
    """Returns the base address of an endpoint; without a path it ends with /v1.

    Raises:
        UserError: the address is missing, does not begin with http:// or https://, or
            has parts that may hold a secret.
    """
    if not url:
        raise UserError(
            f"--endpoint is missing: a model {PREFIX}NAME needs the address of a "
            f"server. Add it, {_EXAMPLE}."
        )
    # The messages do not quote the address, since it may hold a secret.
    try:
        parts = urlsplit(url)
        host, secret = parts.hostname, parts.username or parts.password
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        host, secret, port, parts = None, None, "", urlsplit("")
    if secret or parts.query or parts.fragment:
        raise UserError(
            "--endpoint: the address holds a user, a password, or a query, which would "
            "be written into records. Give the address alone, and the key in "
            f"${KEY_VARIABLE}."
        )
    if parts.scheme not in ("http", "https") or not host:
        raise UserError(
            f"--endpoint {url} is not the address of a server. Write it with http:// "
            f"or https://, {_EXAMPLE}."
        )
    path = parts.path.rstrip("/").removesuffix(_CHAT) or "/v1"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{port}{path}"
