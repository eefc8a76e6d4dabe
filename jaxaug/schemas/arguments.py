"""The arguments of `jaxaug schema`; cheap to import."""

import argparse

from jaxaug.core import arguments

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
        "jaxaug.schemas.convert:run_import",
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
        "jaxaug.schemas.convert:run_export",
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
