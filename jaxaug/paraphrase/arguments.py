"""Options of `jaxaug paraphrase`; this module imports quickly."""

from typing import Annotated, Literal

from jaxaug.core import arguments
from jaxaug.core.arguments import Arg, Count, PathLike, Range, Seed, Settings, Words

LONGEST = 4096
"""Maximum number of tokens of an input, and of an output."""


class Endpoint(Settings):
    """A verb that may use a model `openai:NAME`.

    Attributes:
        endpoint: server with the OpenAI chat-completions interface, such as
            http://localhost:8000/v1, for a model openai:NAME
        key_variable: environment variable with the key of the endpoint (default:
            OPENAI_API_KEY)
        max_requests: send the endpoint at most this many requests; the rest needs
            another call
        prices: dollars per million tokens of input and of output, to report the cost
        option: with --endpoint: temperature, top_p, max_tokens, per_request, json,
            concurrent, retries, timeout
    """

    endpoint: Annotated[str | None, Arg(metavar="URL")] = None
    key_variable: Annotated[str | None, Arg(metavar="NAME")] = None
    max_requests: Count | None = None
    prices: Annotated[str | None, Arg(metavar="IN,OUT")] = None
    option: Annotated[Words, Arg(metavar="NAME=VALUE", action="extend")] = ()


class DryRun(Settings):
    """A verb that can tell the expected use of an endpoint.

    Attributes:
        dry_run: with --endpoint: print the expected requests, tokens and cost, and stop
    """

    dry_run: bool = False


class Paraphrase(
    arguments.Texts,
    Endpoint,
    DryRun,
    arguments.Offline,
    arguments.TrainedRun,
    arguments.Engine,
    arguments.Shards,
    verb="paraphrase",
    target="jaxaug.augment.plain.people:run",
):
    """Paraphrase each text of a file: without --sampler and --prompt filtered, else
    every output; the same command resumes after a stop.

    Attributes:
        model: rewording-paraphraser (default without --sampler and --prompt),
            random-tiny, minisgd, a name from `jaxaug models list`, or the folder of a
            T5X run or a published model; openai:NAME for a model behind --endpoint
        adapter: LoRA adapter for the model: a folder in peft format, or a run with
            configs/runs/lora.gin
        sampler: greedy, sampling, top_k_top_p, bottom_k, beam, diverse_beam, dips, dpp,
            ssr, or one that another package registers
        num: outputs for each input (default: 5, or 1 with --sampler or --prompt)
        seed: seed of all random draws
        batch_size: inputs that are decoded together
        max_length: maximum tokens per output, including EOS
        prompt: prompt for a language model: schema (default), persona, plain (default
            with an adapter of ours), or a file with {text}; chat:NAME or chat:FILE puts
            it into the chat template of the model. With --endpoint: plain (default),
            schema, or a file
        precision: precision of the weights; bfloat16, half of the memory, is also that
            of the computation, in which accelerators are fastest; int8 takes a quarter;
            float16 and int16 need --engine ctranslate2, which lacks bfloat16
        refill: for greedy, sampling, top_k_top_p and bottom_k: reuse finished rows for
            the next inputs (auto: if there are more inputs than rows)
        option: option of the sampler, such as k=2; with --endpoint: temperature, top_p,
            max_tokens, per_request, json, concurrent, retries, timeout
        filter: without --sampler and --prompt: strict accounts for every word (default
            of smollm2), light checks numbers, names, negations and questions (default
            of other models), off keeps every output that differs
        out: file to write: JSON lines with --sampler or --prompt; else in the format of
            the input, as `jaxaug augment text` does (default: standard output)
    """

    model: str | None = None
    adapter: str | None = None
    sampler: str | None = None
    num: Count | None = None
    seed: Seed = 0
    batch_size: Count = 32
    max_length: Annotated[int, Range(1, LONGEST)] = 64
    prompt: str | None = None
    precision: Literal["float32", "bfloat16", "float16", "int16", "int8"] = "float32"
    refill: Literal["auto", "on", "off"] = "auto"
    filter: Annotated[
        Literal["auto", "strict", "light", "off"] | None, Arg(metavar="HOW")
    ] = None
    out: PathLike | None = None


add = arguments.adds(Paraphrase)
