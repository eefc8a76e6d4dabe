"""Options of `jaxaug schema` and `jaxaug sensitivity`; this module imports quickly."""

import typing
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from jaxaug.core import arguments as args
from jaxaug.paraphrase.arguments import DryRun, Endpoint

Format = Literal["openapi", "mcp", "openai", "anthropic", "json_schema", "sgd"]
FORMATS: tuple[Format, ...] = typing.get_args(Format)
"""Formats of documents that describe tools."""
WORDINGS, REPEATS = 5, 2
"""Default numbers of rewordings and of repeats."""


class Axis(NamedTuple):
    """A change of the tools of a suite.

    Attributes:
        meaning: the change, in words.
        is_faithful: whether the tools say the same as before.
    """

    meaning: str
    is_faithful: bool


AXES: Mapping[str, Axis] = {
    "short": Axis("the fewest words", True),
    "long": Axis("full sentences of twice the length", True),
    "docstring": Axis("the style of docstrings", True),
    "question": Axis("questions as in a form", True),
    "names": Axis("other names of tools and arguments", True),
    "omission": Axis("one detail missing in each text", False),
    "bare": Axis("no descriptions of arguments", False),
    "distractor": Axis("the tools of another case, too", False),
}
_Losses = Annotated[str | None, args.Arg(metavar="LOSSES")]


class SchemaVerb(args.Settings, verb="schema"):
    """Tool lists and OpenAPI documents to schemas, and back."""


class Import(
    args.Settings, verb="schema import", target="jaxaug.tools.convert:run_import"
):
    """Convert an OpenAPI document, a tool list, or a JSON Schema to a schema.json;
    print the losses.

    Attributes:
        file: JSON or YAML (.yaml, .yml), or a server: "mcp:COMMAND", mcp:https://...
        format: format of FILE (default: recognized from its content)
        out: schema.json to write
        losses: JSON file to write with everything that schema.json cannot represent
    """

    file: Annotated[str, args.Arg("FILE")]
    format: Annotated[Format | None, args.Arg("--from")] = None
    out: str
    losses: _Losses = None


class Export(
    args.Settings, verb="schema export", target="jaxaug.tools.convert:run_export"
):
    """Convert a schema.json to a tool list, an OpenAPI document, or a JSON Schema;
    print the losses.

    Attributes:
        schema: schema.json to read
        format: format to write
        losses: file of `import --losses`, whose losses are restored
        out: JSON or YAML file to write
    """

    schema: Annotated[str, args.Arg("SCHEMA")]
    format: Annotated[Format, args.Arg("--to")]
    losses: _Losses = None
    out: str


class TaskOptions(args.Settings):
    """Options of the questions about tools.

    Attributes:
        wordings: rewordings by the grammar (default: 5; for dialogues the variants of
            SGD-X; a suite has its own)
        files: instead: the tools of --schema with other descriptions, a file each
        repeats: requests about each case under each wording (default: 2; a tracker is
            asked once, because its answers are always the same)
        shots: solved examples in the prompt: the first K cases, which are not scored,
            or K frames of the train split
        limit: only the first N cases or dialogues
        seed: of rewordings, examples, and the server's sampling
    """

    wordings: Annotated[int, args.Range(1, 1000)] | None = None
    files: Annotated[args.Words, args.Arg("--wordings_from", metavar="FILE")] = ()
    repeats: Annotated[int, args.Range(1, 1000), args.Arg(metavar="R")] | None = None
    shots: Annotated[int, args.Range(0, args.MANY), args.Arg(metavar="K")] = 0
    limit: args.Count | None = None
    seed: args.Seed = 0


class Sensitivity(
    TaskOptions,
    args.TrainedRun,
    DryRun,
    Endpoint,
    args.DataDir,
    verb="sensitivity",
    target="jaxaug.tools.run:run",
):
    """Ask a model for tool calls under reworded descriptions: whether its answers
    depend on the wording, and on which descriptions.

    Attributes:
        suite: published cases with five graded rewordings of their tools
        axis: also measure a suite under changes that are not part of the excess.
            Faithful: short, long, docstring, question (texts), names (others). Not
            faithful: omission (of a detail in each text), bare (arguments without
            texts), distractor (the tools of another case, too)
        schema: tools of the cases, in any format of `jaxaug schema import`
        input: cases as JSON lines with messages and calls, or a file of BFCL
            (default: the annotated dialogues of the data folder)
        answers: possible answers of BFCL (default: possible_answer/ next to --in)
        split: of the data folder (default: test)
        model: openai:NAME, the name of a chat model behind --endpoint
        run: instead of --model: training run of a tracker, or its checkpoint
        option: with --endpoint: any field of the requests as JSON or text, such as
            temperature=1 or reasoning_effort=low; and concurrent, retries, timeout
        tools_in_prompt: put the tools into the first message, for models whose chat
            template has no tools
        rows: printed descriptions
        fail_above: exit with status 3 if the model is sensitive and the excess is
            greater
        json: all results as JSON
        html: page to write, self-contained
        junit: the result as JUnit XML, a test for CI
        out: the tools with better descriptions, chosen on half of the cases and tested
            on the other half; written if they are better there
        writer: openai:NAME, the model at --endpoint that proposes texts for --out from
            failing cases (default: --model; with --run only rewordings are compared)
    """

    wordings: Annotated[int, args.Range(1, 64)] | None = None
    repeats: Annotated[int, args.Range(1, 64), args.Arg(metavar="R")] | None = None
    suite: Literal["bfcl-live", "mcp"] | None = None
    axis: Annotated[args.Words, args.Arg(metavar="AXIS", choices=tuple(AXES))] = ()
    schema: args.File = None
    input: Annotated[str | None, args.Arg("--in", metavar="FILE")] = None
    answers: args.File = None
    split: args.Split | None = None
    model: str | None = None
    run: str | None = None
    tools_in_prompt: bool = False
    rows: Annotated[int, args.Range(0, args.MANY)] = 20
    fail_above: (
        Annotated[float, args.Range(0, 100), args.Arg(metavar="POINTS")] | None
    ) = None
    json: args.File = None
    html: args.File = None
    junit: args.File = None
    out: args.File = None
    writer: Annotated[str | None, args.Arg(metavar="MODEL")] = None


add = args.adds(SchemaVerb, Import, Export)
add_sensitivity = args.adds(Sensitivity)
