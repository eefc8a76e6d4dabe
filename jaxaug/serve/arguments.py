"""The arguments of `jaxaug serve`; importing this is cheap."""

import argparse

from jaxaug.core import arguments
from jaxaug.track.arguments import add_engine, add_robust, add_run, add_schema


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `serve`."""
    text = (
        "local web page and JSON API: compare states under two wordings of the schema"
    )
    parser = arguments.verb(verbs, "serve", "jaxaug.serve.run:run", text)
    add_run(parser)
    add_schema(parser)
    parser.add_argument(
        "--data_dir",
        help="folder whose variants of the schema can be chosen (default, without "
        "--schema: $JAXAUG_DATA_DIR, else the embedded MiniSGD)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; any other than a local one gives others access "
        "(default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port", type=arguments.whole(65_535), default=8008, help="(default: 8008)"
    )
    add_engine(parser)
    add_robust(parser)
