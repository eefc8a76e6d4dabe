"""The measurement of `jaxaug sensitivity` as a task of Inspect, `jaxaug/tools`.

Inspect (https://inspect.aisi.org.uk) asks any provider and shows its logs. Its tools
have no `$ref`, `allOf`, or `not`, so that models see less of a schema that has them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant, GenerateConfig, messages_from_openai
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    metric,
    scorer,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolDef, ToolParams

from jaxaug.core.errors import UserError
from jaxaug.tools import measure, models, run
from jaxaug.tools.arguments import REPEATS, WORDINGS, TaskOptions
from jaxaug.tools.cases import ORIGINAL, Case, Wordings
from jaxaug.tools.match import Call
from jaxaug.tools.models import PROSE, TOOL_CALLS, Reply


@task
def tools(
    cases: str = "",
    schema: str | None = None,
    suite: str | None = None,
    axis: str | Sequence[str] = (),
    wordings: int = WORDINGS,
    repeats: int = REPEATS,
    limit: int | None = None,
    seed: int = 0,
) -> Task:
    """Measures whether tool calls depend on the wording of descriptions.

    A sample is one request, so that `--epochs` and `--limit` of Inspect are not needed.

    Args:
        cases: file of cases; see `jaxaug sensitivity --in`.
        schema: document with the tools; None for cases of BFCL.
        suite: instead of both, a suite with its own wordings.
        axis: axes of the suite to measure, too; see `jaxaug sensitivity --axis`.
        wordings: number of rewordings by the grammar.
        repeats: number of requests about each case under each wording.
        limit: number of cases; None means all.
        seed: seed of the rewordings and of the sampling.

    Raises:
        UserError: a file or an argument is wrong.
    """
    if suite:
        options = TaskOptions(repeats=repeats, limit=limit, seed=seed)
        axes = axis.split(",") if isinstance(axis, str) else axis
        made = run.of_suite(suite, options, [*filter(None, axes)])
    elif axis:
        raise UserError("axis: changes the tools of a suite. Name a suite, too.")
    else:
        options = TaskOptions(
            wordings=wordings, repeats=repeats, limit=limit, seed=seed
        )
        made = run.of_file(cases, schema, None, options)
    asked = {
        f"{name} {number} {case.id}": (name, number // len(made.every), case)
        for number, (name, found) in enumerate(made.requests(repeats))
        for case in found
    }
    samples = [
        Sample(f"{case.id} ({name})", id=key, metadata={"wording": name, "round": turn})
        for key, (name, turn, case) in asked.items()
    ]
    ready = {key: case for key, (_, _, case) in asked.items()}
    return Task(
        dataset=MemoryDataset(samples, name="tools"),
        solver=_solver(ready, seed),
        scorer=_scorer(ready),
        metrics=[_metric(made.wordings, [*made.every])],
        config=GenerateConfig(temperature=0.0),
    )


def _solver(asked: Mapping[str, Case], seed: int) -> Solver:
    @solver
    def ask() -> Solver:
        """Asks the model once about the case of a sample; no tool is executed."""

        async def solve(state: TaskState, generate: Generate) -> TaskState:
            case = asked[str(state.sample_id)]
            state.messages = await messages_from_openai([*case.messages])  # type: ignore
            state.tools = [_tool(one["function"]) for one in case.tools]
            number = models.seed_of(case, seed)
            return await generate(state, tool_calls="none", seed=number)

        return solve

    return ask()


def _tool(function: dict[str, Any]) -> Any:
    async def execute() -> None:
        """Is never called."""

    known = function.get("parameters") or {}
    parameters = ToolParams.model_validate(
        {key: known[key] for key in ToolParams.model_fields if key in known}
    )
    texts = function["name"], function.get("description") or function["name"]
    return ToolDef(execute, *texts, parameters=parameters).as_tool()


def _metric(wordings: Wordings, names: Sequence[str]) -> Metric:
    places = {case.id: n for n, case in enumerate(wordings[ORIGINAL])}
    groups = np.array([case.group for case in wordings[ORIGINAL]])
    covered = measure.coverage(wordings)

    @metric(scores="unreduced")
    def sensitivity() -> Metric:
        """The excess with its test, and the accuracy of each wording and axis."""

        def of(scores: list[SampleScore]) -> dict[str, float]:
            known = [
                (one.sample_metadata or {}, str(one.sample_id).split(" ", 2)[2], one)
                for one in scores
            ]
            turns = 1 + max(about["round"] for about, _, _ in known)
            table = np.full((len(names), turns, len(places)), np.nan)
            for about, case, one in known:
                place = names.index(about["wording"]), about["round"], places[case]
                table[place] = one.score.as_float()
            # Inspect also calls metrics while samples are open, or after failures.
            is_whole = ~np.isnan(table).any(axis=(0, 1))
            table = table[:, :, is_whole]
            if not table.size:
                return {}
            clusters = np.unique(groups[is_whole], return_inverse=True)[1]
            of_wordings = table[: len(wordings)]
            found = measure.result([*wordings], of_wordings, clusters, covered)
            accuracy = table.mean(axis=(1, 2)).tolist()
            return {
                "sensitive": float(found.verdict == measure.SENSITIVE),
                "excess": found.excess.value or 0.0,
                "p": found.p,
                "between": found.between,
                "within": found.within,
                **dict(zip(names, accuracy, strict=True)),
            }

        return of

    return sensitivity()


def _scorer(asked: Mapping[str, Case]) -> Scorer:
    @scorer(metrics=[])
    def calls() -> Scorer:
        """1 if the calls of a reply are right, as in `jaxaug sensitivity`, else 0."""

        async def score(state: TaskState, target: Target) -> Score:
            case, reply = asked[str(state.sample_id)], _reply(state.output.message)
            found = measure.outcome(case, reply, case.is_state)
            return Score(value=found.score, answer=str(reply.calls))

        return score

    return calls()


def _reply(message: ChatMessageAssistant) -> Reply:
    if message.tool_calls:
        made = tuple(Call(one.function, one.arguments) for one in message.tool_calls)
        return Reply(made, TOOL_CALLS)
    return (
        models.parsed({"content": message.text}) if message.text else Reply((), PROSE)
    )
