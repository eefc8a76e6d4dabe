"""Options of `jaxaug fewshot`; this module imports quickly."""

from typing import Annotated

from jaxaug.core.arguments import CONFIG, Arg, Settings, adds


class FewShot(Settings, verb="fewshot", target="jaxaug_papers.pcc.fewshot.run:run"):
    """Few-shot text classification: every method of a table, for several seeds.

    Attributes:
        data_dir: folder with fewshot/ and pcc/ (default: from the config)
        encoder: an encoder of `jaxaug models list`, or static:NAME
        out: folder to write (default: from the config)
        dry_run: print the schedules and stop
        texts: write the few-shot sentences to this file, one per line, and stop
    """

    config: Annotated[str, Arg(help=CONFIG.format("fewshot"))]
    data_dir: str | None = None
    encoder: str | None = None
    out: str | None = None
    dry_run: Annotated[bool, Arg(either="work")] = False
    texts: Annotated[str | None, Arg(either="work")] = None


add = adds(FewShot)
