"""Replies of chat models."""

import json

import pytest

from jaxaug.tools.match import Call
from jaxaug.tools.models import INVALID, TOOL_CALLS, Reply, parsed


def reply(**function):
    return {"tool_calls": [{"type": "function", "function": function}]}


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (reply(name="ping", arguments=""), [Call("ping", {})]),
        (reply(name="ping", arguments=None), [Call("ping", {})]),
        (reply(name="ping", arguments="null"), [Call("ping", {})]),
        (reply(name="ping"), [Call("ping", {})]),
        (reply(name="find", arguments='{"user.name": "bob"}'),
         [Call("find", {"user.name": "bob"})]),
        ({"function_call": {"name": "ping", "arguments": ""}}, [Call("ping", {})]),
        ({"function_call": {"name": "find", "arguments": '{"n": 2}'}, "content": None},
         [Call("find", {"n": 2})]),
        (reply(name="ping", arguments="[]"), None),
        (reply(name="ping", arguments="{"), None),
        (reply(arguments="{}"), None),
    ],
)  # fmt: skip
def test_forms_of_calls(message, found):
    message = json.loads(json.dumps(message))
    wanted = Reply((), INVALID) if found is None else Reply(tuple(found), TOOL_CALLS)
    assert parsed(message) == wanted
