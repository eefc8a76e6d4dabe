"""The task of Inspect, `jaxaug/tools`."""

import json

import pytest

inspect_ai = pytest.importorskip("inspect_ai")

from jaxaug.core.errors import UserError
from jaxaug.serve import app, wordings
from jaxaug.tools import inspect_tasks, run
from jaxaug.tools.arguments import TaskOptions
from jaxaug.tools.cases import Case
from tests.support.chat_server import called
from tests.support.served import served
from tests.tools.test_completions import Booker
from tests.tools.test_run import CASES, TOOLS

NAME = "openai-api/mine/tiny"


@pytest.fixture
def measured(tmp_path, monkeypatch, judge_network):
    """Returns the requested metrics of a server, and its samples."""
    schema, cases = tmp_path / "tools.json", tmp_path / "cases.jsonl"
    schema.write_text(json.dumps(TOOLS))
    cases.write_text("".join(json.dumps(one) + "\n" for one in CASES))
    monkeypatch.setenv("MINE_API_KEY", "any")
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))

    def run(url, **more):
        task = inspect_tasks.tools(str(cases), str(schema), **more)
        (log,) = inspect_ai.eval(
            task, model=NAME, model_base_url=url, display="none", max_retries=0
        )
        assert log.status == "success", log.error
        (score,) = log.results.scores
        return {name: one.value for name, one in score.metrics.items()}, log.samples

    return run


def test_a_description_that_breaks(measured, server):
    given = TOOLS[0]["function"]["description"]

    def answer(body):
        (tool,) = body["tools"]
        known = tool["function"]["description"] == given
        return called(("weather", {"city": "Oslo" if known else "Bergen"}))(body)

    server.answer = answer
    found, samples = measured(server.url, wordings=2, repeats=3)
    accuracy = [found[name] for name in ("original", "control", "r1", "r2")]
    assert accuracy == [0.75, 0.75, 0, 0]  # No call is right in one of four cases.
    assert found["within"] == pytest.approx(0, abs=1e-9)
    assert found["between"] == pytest.approx(found["excess"])
    assert found["excess"] > 0.4
    assert len(samples) == len(server.bodies) == 4 * 3 * 4
    assert {body["temperature"] for body in server.bodies} == {0}
    assert len({body["seed"] for body in server.bodies}) == 48
    city = server.bodies[0]["tools"][0]["function"]["parameters"]["properties"]["city"]
    assert city["type"] == "string" and city["description"]


def test_a_served_tracker(measured, sgd_tree):
    known = wordings.read(None, sgd_tree, 1000)
    with served(app.build(Booker(known.original, {"city": ("Oslo",)}), known)) as url:
        found, _ = measured(f"{url}/v1", wordings=1, repeats=1)
    assert found["original"] == found["r1"] == 0.75 and found["excess"] == 0


def test_axes_of_a_suite(monkeypatch):
    asked = []
    case = Case("a", "a", ({"role": "user", "content": "Oslo"},), (), ())
    names = ("original", "control", "g1")

    def of_suite(name, options, axes):
        asked.append((name, axes))
        return run.Task([], {key: [case] for key in names}, {}, {"short": [case]})

    with monkeypatch.context() as patched:
        patched.setattr(run, "of_suite", of_suite)
        task = inspect_tasks.tools(suite="mcp", axis="bare,short", repeats=2)
    assert asked == [("mcp", ["bare", "short"])]
    found = [(one.metadata["wording"], one.metadata["round"]) for one in task.dataset]
    order = [*names, "short"]
    assert found == [*((n, 0) for n in order), *((n, 1) for n in order[::-1])]
    with pytest.raises(UserError, match="axis 'shrt' is unknown"):
        run.of_suite("mcp", TaskOptions(), ["shrt"])
    with pytest.raises(UserError, match="Name a suite"):
        inspect_tasks.tools("cases.jsonl", axis="short")
