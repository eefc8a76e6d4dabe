"""Arguments of `jaxaug schema` and `jaxaug sensitivity`; cheap to import."""

import argparse

from jaxaug.core import arguments
from jaxaug.paraphrase import arguments as paraphrase

FORMATS = ("openapi", "mcp", "openai", "anthropic", "json_schema", "sgd")
"""Formats of documents that describe tools."""


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `schema`."""
    parser = verbs.add_parser(
        "schema", help="tool lists and OpenAPI documents to schemas, and back"
    )
    group = parser.add_subparsers(metavar="COMMAND", required=True)
    read = arguments.verb(
        group,
        "import",
        "jaxaug.tools.convert:run_import",
        "convert an OpenAPI document, a tool list, or a JSON Schema to a schema.json; "
        "print the losses",
    )
    read.add_argument(
        "file",
        metavar="FILE",
        help='JSON or YAML (.yaml, .yml), or a server: "mcp:COMMAND", mcp:https://...',
    )
    read.add_argument(
        "--from",
        dest="format",
        choices=FORMATS,
        help="format of FILE (default: recognized from its content)",
    )
    read.add_argument("--out", required=True, help="schema.json to write")
    read.add_argument(
        "--losses",
        metavar="LOSSES",
        help="JSON file to write with everything that schema.json cannot represent",
    )
    write = arguments.verb(
        group,
        "export",
        "jaxaug.tools.convert:run_export",
        "convert a schema.json to a tool list, an OpenAPI document, or a JSON Schema; "
        "print the losses",
    )
    write.add_argument("schema", metavar="SCHEMA", help="schema.json to read")
    write.add_argument(
        "--to", dest="format", choices=FORMATS, required=True, help="format to write"
    )
    write.add_argument(
        "--losses",
        metavar="LOSSES",
        help="file of `import --losses`, whose losses are restored",
    )
    write.add_argument("--out", required=True, help="JSON or YAML file to write")


def add_sensitivity(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `sensitivity`."""
    parser = arguments.verb(
        verbs,
        "sensitivity",
        "jaxaug.tools.run:run",
        "ask a model for tool calls under reworded descriptions: whether its answers "
        "depend on the wording, and on which descriptions",
    )
    _cases(parser)
    _model(parser)
    many = arguments.whole(arguments.MANY)
    parser.add_argument(
        "--wordings",
        type=arguments.whole(64),
        metavar="N",
        help="rewordings by the grammar (default: 5; for dialogues the variants of "
        "SGD-X; a suite has its own)",
    )
    parser.add_argument(
        "--wordings_from",
        nargs="+",
        metavar="FILE",
        help="instead: the tools of --schema with other descriptions, a file each",
    )
    parser.add_argument(
        "--repeats",
        type=arguments.whole(64),
        metavar="R",
        help="requests about each case under each wording (default: 2)",
    )
    parser.add_argument(
        "--shots",
        type=many,
        default=0,
        metavar="K",
        help="solved examples in the prompt: the first K cases, which are not scored, "
        "or K frames of the train split (default: 0)",
    )
    parser.add_argument(
        "--limit", type=many, metavar="N", help="only the first N cases or dialogues"
    )
    parser.add_argument(
        "--tools_in_prompt",
        action="store_true",
        help="put the tools into the first message, for models whose chat template has "
        "no tools",
    )
    parser.add_argument(
        "--seed",
        type=arguments.whole(arguments.MAX_SEED),
        default=0,
        help="of rewordings, examples, and the server's sampling (default: 0)",
    )
    parser.add_argument(
        "--rows",
        type=many,
        default=20,
        metavar="N",
        help="printed descriptions (default: 20)",
    )
    parser.add_argument(
        "--fail_above",
        type=float,
        metavar="POINTS",
        help="exit with status 3 if the model is sensitive and the excess is greater",
    )
    for name, text in (
        ("--json", "all results as JSON"),
        ("--html", "page to write, self-contained"),
        ("--junit", "the result as JUnit XML, a test for CI"),
        (
            "--out",
            (
                "the tools with better descriptions, chosen on half of the cases and "
                "checked on the other half; written if they are better there"
            ),
        ),
    ):
        parser.add_argument(name, metavar="FILE", help=text)


def _cases(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite",
        choices=("bfcl-live", "mcp"),
        help="published cases with five graded rewordings of their tools",
    )
    parser.add_argument(
        "--axis",
        nargs="+",
        choices=("bare", "distractor"),
        help="also measure a suite under changes that are not faithful and not part of "
        "the excess: tools without descriptions of arguments; the tools of another "
        "case in addition",
    )
    parser.add_argument(
        "--schema",
        metavar="FILE",
        help="tools of the cases, in any format of `jaxaug schema import`",
    )
    parser.add_argument(
        "--in",
        dest="input",
        metavar="FILE",
        help="cases as JSON lines with messages and calls, or questions of BFCL "
        "(default: the annotated dialogues of the data folder)",
    )
    parser.add_argument(
        "--answers",
        metavar="FILE",
        help="possible answers of BFCL (default: possible_answer/ next to --in)",
    )
    arguments.data_dir(parser)
    parser.add_argument(
        "--split",
        choices=("train", "dev", "test"),
        default="test",
        help="of the data folder (default: test)",
    )


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", help="openai:NAME, the name of a chat model behind --endpoint"
    )
    paraphrase.endpoint(parser)
    paraphrase.of_requests(parser)
    paraphrase.dry_run(parser)
    parser.add_argument(
        "--run", help="instead of --model: training run of a tracker, or its checkpoint"
    )
    arguments.trained_run(parser)
