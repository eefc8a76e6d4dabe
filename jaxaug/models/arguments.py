"""Options of `jaxaug models` and `jaxaug convert`; this module imports quickly."""

from typing import Annotated, Literal

from jaxaug.core import arguments as args

Format = Literal["hf", "t5x", "t5x_legacy", "peft", "ctranslate2"]
Precision = Literal["float32", "float16", "int16", "int8"]
DType = Literal["float32", "bfloat16", "float16"]


class Models(args.Settings, verb="models"):
    """List and fetch named models."""


class List(
    args.Settings, verb="models list", target="jaxaug.models.named.catalogue:run_list"
):
    """Named models: which are on disk, which need the network, how to get each."""


class Fetch(
    args.Settings, verb="models fetch", target="jaxaug.models.named.catalogue:run_fetch"
):
    """Download named models into the cache.

    Attributes:
        names: a name from the list, or hf:OWNER/NAME on the Hugging Face hub
    """

    names: Annotated[args.Words, args.Arg("NAME")]


class Convert(args.TrainedRun, verb="convert", target="jaxaug.models.convert:run"):
    """Convert a model between formats: Hugging Face, T5X, GGUF, CTranslate2.

    Attributes:
        source: published folder, T5X run or checkpoint, .gguf file, name from `jaxaug
            models list`, or hf:OWNER/NAME on the Hugging Face hub
        destination: new folder; checkpoint_N for T5X
        format: what to write (default: t5x for checkpoint_N, else hf); peft writes the
            adapter of a run with configs/runs/lora.gin, as bfloat16; ctranslate2 needs
            the extra engine
        precision: precision of the weights with --format ctranslate2 (default: float32)
        merge_lora: merge a LoRA adapter into the weights: a folder in peft format, or a
            run trained with configs/runs/lora.gin
        unmerge_lora: remove a merged adapter from the weights, up to rounding
        like: published folder with the configuration and tokenizer to use
        dtype: round parameters to this type (default: unchanged)
        scan_layers: write a T5 as stacks of scanned layers, for
            t5x.examples.scalable_t5
        data: model card: the training data
        licence: model card: the license
        metrics: model card: JSON file of names and values
        seed: model card: the training seed
    """

    source: Annotated[str, args.Arg("--from")]
    destination: Annotated[str, args.Arg("--to")]
    format: Format | None = None
    precision: Precision | None = None
    merge_lora: Annotated[
        str | None, args.Arg("--merge-lora", metavar="ADAPTER", either="adapter")
    ] = None
    unmerge_lora: Annotated[
        str | None, args.Arg("--unmerge-lora", metavar="ADAPTER", either="adapter")
    ] = None
    like: str | None = None
    dtype: DType | None = None
    scan_layers: Annotated[bool, args.Arg("--scan-layers")] = False
    data: str | None = None
    licence: str | None = None
    metrics: str | None = None
    seed: args.Seed | None = None


add = args.adds(Models, List, Fetch)
add_convert = args.adds(Convert)
