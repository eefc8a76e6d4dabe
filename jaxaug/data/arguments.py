"""Options of the verbs about data; this module imports quickly."""

from typing import Annotated, Literal

from jaxaug.core import arguments as args

_Out = Annotated[str, args.Arg(metavar="DIR")]
_Names = Annotated[args.Words, args.Arg(metavar="NAME")]


class Folder(args.Settings):
    """A command with an optional data folder.

    Attributes:
        dir: folder in the layout of the SGD repository, local or gs:// (default:
            $JAXAUG_DATA_DIR, else the embedded MiniSGD)
    """

    dir: Annotated[str | None, args.Arg("DIR")] = None


class Init(args.Settings, verb="init", target="jaxaug.data.example:run"):
    """Write example data to adapt: 2 services, 20 dialogues, every field explained.

    Attributes:
        dir: new or empty folder, local or gs://
    """

    dir: Annotated[str, args.Arg("DIR")]


class Data(args.Settings, verb="data"):
    """Fetch, describe and rewrite data folders."""


class Fetch(args.Settings, verb="data fetch", target="jaxaug.data.fetch:run"):
    """Download a data set with a checksum.

    Attributes:
        name: sgd, personachat, one of an installed package, such as multiwoz22, or
            hf:OWNER/NAME on the Hugging Face hub
        out: target folder (default: ./data/<name>)
    """

    name: Annotated[str, args.Arg("name")]
    out: str | None = None


class Convert(
    args.Settings, verb="data convert", target="jaxaug.data.fetch:run_convert"
):
    """Convert a published folder to the layout that jaxaug reads, and count the
    changes.

    Attributes:
        name: one of an installed package, such as multiwoz22
        source: folder as published
        out: folder to write
        mentioned_only: write frames only for the domains of a dialogue: smaller, but
            joint accuracy no longer counts hallucinated domains
    """

    name: Annotated[str, args.Arg("name")]
    source: str
    out: str
    mentioned_only: bool = False


class Import(
    args.Settings, verb="data import", target="jaxaug.tools.conversations:run_import"
):
    """Convert chat messages with tool calls to a split of a data folder.

    Attributes:
        source: file (.jsonl, .json, .parquet, .arrow), or a folder with them, such as
            one of Hugging Face `datasets`; or hf:OWNER/NAME on its hub
        schema: document with the tools of records without `tools`, in any format of
            `jaxaug schema import`
        out: data folder
    """

    source: Annotated[str, args.Arg("SOURCE")]
    schema: args.File = None
    split: args.Split
    out: _Out


class Export(
    Folder, verb="data export", target="jaxaug.tools.conversations:run_export"
):
    """Convert a split of a data folder to chat messages with tool calls; `export
    rewordings` writes the corpus of rewordings.

    Attributes:
        out: .jsonl or .parquet file to write; folder for `rewordings` (default:
            ./rewordings)
        format: of the files of `rewordings` (default: jsonl)
    """

    split: args.Split | None = None
    out: Annotated[str | None, args.Arg(metavar="PATH")] = None
    format: Literal["jsonl", "parquet"] | None = None


class Describe(args.DataDir, verb="data describe", target="jaxaug.data.describe:run"):
    """Counts per split and service, seen and unseen."""


class Check(Folder, verb="data check", target="jaxaug.feed.inversion:run"):
    """Report every error in a data folder, with file, line and fix."""


class Show(Folder, verb="data show", target="jaxaug.data.show:run"):
    """Show dialogues with their states, and what each turn changes.

    Attributes:
        split: (default: all, train first)
        dialogue: show only this dialogue
        service: only dialogues that use this service
        num: how many
        no_color: print without color even on a terminal, as with $NO_COLOR
    """

    split: args.Split | None = None
    dialogue: Annotated[str | None, args.Arg(metavar="ID")] = None
    service: Annotated[str | None, args.Arg(metavar="NAME")] = None
    num: args.Count = 3
    no_color: Annotated[bool, args.Arg("--no-color")] = False


class Sample(Folder, verb="data sample", target="jaxaug.data.sample:run"):
    """Write a smaller data folder: whole dialogues, all services, all wordings.

    Attributes:
        out: new folder
        frames: keep dialogues with about N frames of a split; copy other splits whole
        list: sample.json of an earlier sample, to make the same one again
        seed: seed of the selection
    """

    out: _Out
    frames: Annotated[args.Words, args.Arg(metavar="SPLIT=N", either="selection")] = ()
    list: Annotated[str | None, args.Arg(metavar="FILE", either="selection")] = None
    seed: args.Seed = 0


class Variants(args.DataDir, verb="data variants", target="jaxaug.data.variants:run"):
    """Write dialogues renamed to a schema variant.

    Attributes:
        variant: v1..v5
        out: folder to write
    """

    split: args.Split
    variant: str
    out: str


class Demonstrations(
    args.DataDir, verb="data demonstrations", target="jaxaug.data.demonstrations:run"
):
    """Write the example dialogue that SDT shows for each service, as a file to edit.

    Attributes:
        out: JSON file to write
    """

    out: str


class Cache(args.DataDir, verb="data cache", target="jaxaug.feed.sets:run"):
    """Format and tokenize tasks before training, into the cache folder of all programs
    ($JAXAUG_CACHE_DIR).

    Attributes:
        task: registered tasks, such as d3st_sgd
        mixture: registered mixtures, such as d3st_eval
        module: modules that register them (default: the modules of jaxaug)
        vocabulary: as for $JAXAUG_VOCABULARY, the default
        out: cache folder, local or gs:// (default: $JAXAUG_CACHE_DIR)
    """

    task: _Names = ()
    mixture: _Names = ()
    module: args.Words = ()
    vocabulary: str | None = None
    out: str | None = None


add_init = args.adds(Init)
add = args.adds(
    Data, Fetch, Convert, Import, Export, Describe, Check, Show, Sample, Variants,
    Demonstrations, Cache,
)  # fmt: skip
