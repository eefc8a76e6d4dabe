"""Options of `jaxaug serve`; this module imports quickly."""

from typing import Annotated

from jaxaug.core.arguments import Range, TrainedRun, adds
from jaxaug.track.arguments import Engines, RunFolder, Schema
from jaxaug.track.options import Robust


class Serve(TrainedRun, Schema, Engines, verb="serve", target="jaxaug.serve.run:run"):
    """Local web page and JSON API: compare states under two wordings of the schema.

    Attributes:
        data_dir: folder whose variants of the schema can be chosen (default, without
            --schema: $JAXAUG_DATA_DIR, else the embedded MiniSGD)
        host: address to listen on; any other than a local one gives others access
    """

    run: RunFolder
    data_dir: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Range(0, 65_535)] = 8008
    robust: Robust


add = adds(Serve)
