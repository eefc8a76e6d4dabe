"""Options of `jaxaug levels`; this module imports quickly."""

from typing import Annotated, Literal

from jaxaug.core import arguments as args
from jaxaug.paraphrase.arguments import DryRun, Endpoint


class Levelling(args.Settings):
    """Options of levels; the defaults follow the paper if it gives a number.

    Attributes:
        model: paraphrasing model, as for `jaxaug paraphrase`
        prompt: as for `jaxaug paraphrase`
        precision: as for `jaxaug paraphrase`
        oversample: outputs to generate per sampler, as a multiple of its quota
        rounds: maximum number of attempts to fill the quotas of a text
        bottom_k: tokens that bottom-k removes
        bottom_steps: steps in which bottom-k applies
        top_k: top-k of top_k_top_p, and of bottom_k after its steps
        top_p: top-p of the same
        max_length: maximum tokens per candidate
        levels: number of levels
        seed: seed of all random draws
        beta: minimum similarity of paraphrases that are not implied (default: 0.5 for
            bleurt-base-128, 0.7 for bleurt-20, 0.8 for minilm, 0.5 for other encoders;
            without an implication model 0.2 for minilm, and no minimum for others)
        similarity: sentence encoder, or BLEURT (default: the first that is on this
            machine of bleurt-base-128, on whose scale the paper's scores are,
            bleurt-20, and minilm)
        implication: entailment model, or none (default: roberta-mi if it is on this
            machine)
    """

    model: str
    prompt: str | None = None
    precision: Literal["float32", "bfloat16", "int8"] = "float32"
    oversample: args.Count = 3
    rounds: args.Count = 3
    bottom_k: Annotated[int, args.Range(most=args.MANY)] = 2
    bottom_steps: Annotated[int, args.Range(most=args.MANY)] = 1
    top_k: Annotated[int, args.Range(most=args.MANY)] = 120
    top_p: float = 0.95
    max_length: Annotated[int, args.Range(most=args.MANY)] = 48
    levels: args.Count = 5
    seed: args.Seed = 0
    beta: float | None = None
    similarity: str = "auto"
    implication: str = "auto"


class Levels(
    args.Texts, Levelling, args.TrainedRun, Endpoint, DryRun,
    verb="levels", target="jaxaug.curriculum.generate:run",
):  # fmt: skip
    """Paraphrase the texts of a file and sort the outputs into levels of difficulty;
    the same command resumes after a stop.

    Attributes:
        out: JSON lines to write: texts and their levels
        quota: paraphrases per text to keep from each sampler (bottom_k, top_k_top_p,
            sampling); default, as in the paper: bottom_k=4 top_k_top_p=16; for its
            COVID-Q: bottom_k=2 top_k_top_p=18; pure sampling instead of bottom-k:
            sampling=4 top_k_top_p=16; with --endpoint: sampling=20
        shard_size: texts per shard, the most that an interruption can lose
    """

    out: str
    quota: Annotated[args.Words | None, args.Arg(metavar="SAMPLER=NUMBER")] = None
    shard_size: args.Count = 16


add = args.adds(Levels)
