"""Lists the tools of a live MCP server; only this module needs the package `mcp`."""

import asyncio
import os
import shlex
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import shortened
from jaxaug.core.installed import extras_of

SCHEME = "mcp:"
"""Prefix of a server that is named instead of a file."""
TIMEOUT = 60
"""Seconds in which a server must start and list its tools."""
_MOST_PAGES = 1000


def is_server(path: object) -> bool:
    """Returns whether `path` names a server, `mcp:COMMAND` or `mcp:https://...`."""
    return isinstance(path, str) and path.startswith(SCHEME)


def tool_list(server: str) -> dict[str, Any]:
    """Returns the tools of a server as the result of `tools/list`.

    Args:
        server: `mcp:` and the command of a server on standard input and output, or its
            http or https address.

    Raises:
        UserError: the package is missing, or the server does not start or answer.
    """
    target = server.removeprefix(SCHEME).strip()
    fix = 'Write "mcp:COMMAND ARGUMENT ..." or "mcp:https://ADDRESS".'
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise UserError(f"{server}: is no command ({error}). {fix}") from None
    if not words or "\0" in target:
        raise UserError(f"{server}: names no command and no address. {fix}")
    with extras_of(f"a server such as {SCHEME}COMMAND"):
        import mcp
        from mcp.client.stdio import stdio_client

    async def listed(log: Any) -> list[dict[str, Any]]:
        place: Any = target
        async with asyncio.timeout(TIMEOUT):
            if not target.startswith(("https://", "http://")):
                command = mcp.StdioServerParameters(command=words[0], args=words[1:])
                place = stdio_client(command, log)
            found: list[dict[str, Any]] = []
            async with mcp.Client(place) as client:
                page = await client.list_tools()
                for _ in range(_MOST_PAGES):
                    found += [
                        tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                        for tool in page.tools
                    ]
                    if not page.next_cursor:
                        return found
                    page = await client.list_tools(cursor=page.next_cursor)
        raise UserError(f"{server}: lists tools without an end. {fix}")

    try:
        with open(os.devnull, "w", encoding="utf-8") as log:
            return {"tools": asyncio.run(listed(log))}
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, UserError):
            raise error from None
        what = (
            f"no answer in {TIMEOUT} seconds"
            if isinstance(error, TimeoutError)
            else (f"{type(error).__name__}: {shortened(error)}")
        )
        raise UserError(
            f"{server}: the server lists no tools ({what}). {fix}"
        ) from None
