"""Options of `jaxaug classify`; this module imports quickly."""

from typing import Annotated

from jaxaug.core.arguments import CONFIG, Arg, Range, Words, adds
from jaxaug.paraphrase.arguments import DryRun, Endpoint


class Classify(
    Endpoint, DryRun, verb="classify", target="jaxaug_papers.dips.classify.run:run"
):
    """Test whether paraphrases of the training data improve a classifier, for several
    shares of the data and several seeds.

    Attributes:
        data_dir: folder that contains the data set's folder (default: from the config)
        out: folder to write (default: from the config)
        model: a model of `jaxaug models list`, a run, or smollm2+ADAPTER (default: from
            the config); openai:NAME for a model behind --endpoint, which has one row
            instead of one for each decoder
        wordnet_dir: folder with WordNet's data.noun and so on (default: from the
            config)
        num_sources: training texts to paraphrase for each seed (default: from the
            config)
        shares: shares of the training data, such as 1 0.1 (default: from the config)
        classifiers: classifiers, such as LogReg (default: from the config)
        only: compute the first row and these, such as SBS 'Cont*' (default: all)
    """

    config: Annotated[str, Arg(help=CONFIG.format("classify"))]
    data_dir: str | None = None
    out: str | None = None
    model: Annotated[str | None, Arg("--model", "--paraphraser", metavar="MODEL")] = (
        None
    )
    wordnet_dir: Annotated[str | None, Arg(metavar="DIR")] = None
    num_sources: Annotated[int, Range(most=2**31 - 1)] | None = None
    shares: Annotated[tuple[float, ...], Arg(metavar="SHARE")] = ()
    classifiers: Annotated[Words, Arg(metavar="NAME")] = ()
    only: Annotated[Words, Arg(metavar="ROW")] = ()


add = adds(Classify)
