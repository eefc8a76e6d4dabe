"""Makes a table of decoders on Quora's questions or Twitter's pairs, for the docs.

    python -m jaxaug_papers.dips.quora_table --text_dir TEXT \\
        --model runs/lstm_0 runs/lstm_1 runs/lstm_2 \\
        --variants equation3 normalized program --out rows.jsonl

    python -m jaxaug_papers.dips.quora_table --text_dir TEXT --model smollm2 \\
        --adapter DIR

    python -m jaxaug_papers.dips.quora_table --text_dir TEXT --pairs twitter \\
        --model runs/twitter_lstm

TEXT/quora contains {train,test}.source.txt and .target.txt. TEXT/twitter contains
labeled pairs in {train,test}.tsv. A clean pair has no training text; one is used for
each source. Every decoder writes ten outputs per source. `--sweep` adds lambda from 0
to 1, `--ablation` removes the terms of F one by one. `--only` names the rows to make,
such as 'DiPS final*'. Several models are seeds of one configuration and get the same
pairs. With one model, seed s uses clean pairs from number s * SOURCES on.

A line of `--out` is a row with its scores and, for each seed and source, the numbers
`SENTENCE`, from which the scores of any sample of sources follow. Rows that the file
contains are not made again.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sacrebleu
from jaxtyping import Float
from t5x.search.beam import brevity_penalty
from t5x.search.candidates import Candidates
from t5x.search.decode_state import check_decodes

from jaxaug.augment.language.lexicon import WordNet
from jaxaug.core.buckets import pad
from jaxaug.core.columns import markdown, markdown_head
from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.data import folders
from jaxaug.data import pairs as pairs_of
from jaxaug.decode import beam, dips, dpp, ground_set, set_search, ssr
from jaxaug.metrics import diversity
from jaxaug.models.layers import int8
from jaxaug.models.text import registry
from jaxaug.models.text.language import LanguageModel
from jaxaug.paraphrase import causal, decoder, samplers
from jaxaug_papers.dips import translation

Setting = tuple[str, dict[str, Any]]
ROWS: dict[str, Setting] = {
    "copying": ("copy", {}),
    "SBS": ("beam", {}),
    "SBS, 10 of 50": ("beam", {"width": set_search.SetOptions.width}),
    "DiPS final": ("dips", {"mode": "final"}),
    "DPP final": ("dpp", {"mode": "final"}),
    "SSR final": ("ssr", {"mode": "final"}),
    "DiPS step": ("dips", {"mode": "step"}),
    "DBS": ("diverse_beam", {}),
    "DPP step": ("dpp", {"mode": "step"}),
    "SSR step": ("ssr", {"mode": "step"}),
}
# Rows with separate models: option of the model, then its decoder.
OTHERS: dict[str, tuple[str, Setting]] = {
    "VAE-SVG": ("vae_svg", ("prior", {})),
    "RbM": ("rbm", ("beam", {})),
}
ORDERS = (1, 2, 3, 4)
LAMBDAS = tuple(n / 10 for n in range(11))
TERMS = ("L1", "L2", "D1", "D2")
LENGTH = 32
ALPHA = samplers.BeamOptions.alpha  # `--sampler dips` has the same default.
# The numbers of a source: distinct-n and METEOR (of the first output) in percent;
# matched and all n-grams and words of all outputs, and words of as many references, for
# BLEU; edits of the first output and words of the reference, for TER.
SENTENCE = (
    *(f"distinct-{n}" for n in ORDERS), "METEOR", "matched 1", "matched 2", "all 1",
    "all 2", "words", "BLEU words", "edits", "TER words",
)  # fmt: skip


class Outputs:
    """Decodes texts with a model and a sampler."""

    def __init__(
        self,
        model: Any,
        texts: Sequence[str],
        batch_size: int,
        num: int,
        seed: int,
        length: int,
    ):
        """Encodes the texts; `length` is the minimum padded length."""
        self.model, self.num = model, num
        self.key = jax.random.PRNGKey(seed)
        causal_model = isinstance(model, LanguageModel)
        self.program = causal.decode if causal_model else decoder.decode
        self.eos_id = model.output_vocabulary.eos_id
        params = jax.device_put(model.params)
        self.params = causal.ready(model, params) if causal_model else params
        tokens = [model.encode(clean(text, False)) for text in texts]
        length = max(length, *map(len, tokens))
        # All batches have the same width, so that one program is compiled.
        order = sorted(range(len(texts)), key=lambda i: len(tokens[i]))
        parts = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        self.batches = [
            (part, pad([tokens[i] for i in part], batch_size, length)) for part in parts
        ]
        self.count = len(texts)
        # Prompts count for the length penalty.
        self.prompts = [
            (inputs != 0).sum(axis=1) * causal_model for _, inputs in self.batches
        ]
        self.sources: Any = causal.sources_of if causal_model else decoder.sources_of
        self.wide: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def decode(self, decode_fn: Any, num: int, part: list[int], inputs: Any) -> Any:
        ids = np.resize(np.asarray(part, np.int32), len(inputs))
        decodes = self.program(
            self.model.bare, decode_fn, num, LENGTH, self.params, inputs, ids,
            self.key,
        )  # fmt: skip
        check_decodes(decodes)
        return decodes

    def chosen(self, name: str, options: dict[str, Any], place: int) -> Any:
        """Returns the selection of a selector from the wide beam of a batch."""
        part, inputs = self.batches[place]
        width = set_search.SetOptions.width
        if place not in self.wide:
            SCORES.clear()
            found = np.asarray(self.decode(wide_beam, width, part, inputs))
            jax.effects_barrier()
            self.wide[place] = found[:, ::-1], SCORES[0][:, ::-1]
        tokens, values = map(jnp.asarray, self.wide[place])
        ended = (tokens == self.eos_id).any(axis=-1)
        if name == "beam":
            best = jnp.argsort(jnp.where(ended, -values, 1e7), axis=1)[:, : self.num]
            return jnp.take_along_axis(tokens, best[..., None], axis=1)[:, ::-1]
        lengths = jnp.where(ended, (tokens == self.eos_id).argmax(axis=-1) + 1, 0)
        penalty = brevity_penalty(ALPHA, self.prompts[place][:, None] + lengths)
        sources = self.sources(self.model.bare, inputs)
        sources = jnp.where(sources == self.eos_id, 0, sources)
        shown = Candidates(
            sequences=tokens,
            lengths=lengths,
            log_probs=jnp.where(ended, values * penalty, -1e7),
            parents=jnp.broadcast_to(jnp.arange(width), lengths.shape),
            finished=ended,
            source=sources,
            source_lengths=(sources != 0).sum(axis=1),
            step=jnp.array(0),
            rng=jax.random.split(jax.random.key(0), len(inputs)),
            k=self.num,
            eos_id=self.eos_id,
        )
        options = {k: v for k, v in options.items() if k not in NOT_OF_F}
        kinds: dict[str, Any] = {
            "dips": (dips.DiPSOptions, dips.choose),
            "dpp": (dpp.DPPOptions, dpp.choose),
            "ssr": (set_search.SetOptions, ssr.choose),
        }
        kind, choose = kinds[name]
        keywords: dict[str, Any] = {"options": kind(**options)}
        if name == "dips":
            keywords["embeddings"] = self.table()
        best = choose(shown, ground_set.from_ended(shown), jnp.max(lengths), **keywords)
        # Decode functions return outputs by ascending probability.
        best = jnp.sort(best, axis=1)[:, ::-1]
        return jnp.take_along_axis(tokens, best[..., None], axis=1)

    def table(self) -> Any:
        if isinstance(self.model, LanguageModel):
            rows = int8.table(self.params["decoder"]["token_embedder"])
            return jnp.pad(rows, ((1, 0), (0, 0)))
        return int8.table(self.params["token_embedder"])

    def __call__(self, setting: Setting) -> tuple[list[list[str]], float, float]:
        """Returns the texts of each input, the unfinished fraction, and s per batch."""
        name, options = setting
        of_wide = "width" in options or options.get("mode") == "final"
        if not of_wide:
            sampler = samplers.find(name)
            decode_fn = sampler.build(self.num, sampler.complete(options))
        found: dict[int, list[str]] = {}
        endless, seconds = 0, []
        for place, (part, inputs) in enumerate(self.batches):
            start = time.perf_counter()
            if of_wide:
                rows = np.asarray(self.chosen(name, options, place))
            else:
                rows = np.asarray(self.decode(decode_fn, self.num, part, inputs))
            seconds.append(time.perf_counter() - start)
            for index, tokens in zip(part, rows, strict=False):
                endless += int((~(tokens == self.eos_id).any(axis=-1)).sum())
                found[index] = [
                    self.model.decode([t for t in one.tolist() if t])
                    for one in tokens[::-1]
                ]
        texts = [found[i] for i in range(self.count)]
        return texts, endless / (len(texts) * self.num), float(np.mean(seconds))


def _first(shown: Candidates) -> Any:
    """Selects all candidates."""
    return jnp.broadcast_to(jnp.arange(shown.k), (len(shown.lengths), shown.k))


# Scores with the length penalty, which the compiled programs do not return.
SCORES: list[np.ndarray] = []


def wide_beam(*args: Any, **options: Any) -> Any:
    """Returns the wide beam with all finished texts; adds its scores to `SCORES`."""
    tokens, scores = beam.search(*args, last=_first, alpha=ALPHA, **options)
    jax.debug.callback(lambda x: SCORES.append(np.asarray(x)), scores)
    return tokens, scores


NOT_OF_F = ("mode", "probability", "width", "alpha")


def sentences(
    outputs: Sequence[Sequence[str]],
    references: Sequence[str],
    synonyms: translation.Synonyms | None = None,
) -> Float[np.ndarray, "sources numbers"]:
    """Returns the numbers `SENTENCE` of each source; NaN if they are undefined."""
    bleu, ter = sacrebleu.BLEU(max_ngram_order=2), sacrebleu.TER()
    rows = []
    for texts, reference in zip(outputs, references, strict=True):
        texts = [text.lower() for text in texts]
        reference = clean(reference, True)
        every = bleu.corpus_score(texts, [[reference] * len(texts)])
        edits = ter.corpus_score(texts[:1], [[reference]])
        found = [diversity.distinct(texts, n) for n in ORDERS]
        rows.append(
            [
                *(math.nan if x is None else 100 * x for x in found),
                translation.meteor(texts[0], reference, synonyms),
                *every.counts,
                *every.totals,
                every.sys_len,
                every.ref_len,
                edits.num_edits,
                edits.ref_length,
            ]
        )
    return np.array(rows)


def figures(
    outputs: list[list[str]],
    references: Sequence[str],
    rows: Float[np.ndarray, "sources numbers"],
) -> list[float]:
    """Returns metrics in percent from outputs and their `sentences`.

    They are distinct-1..4, BLEU-2 of all outputs, of the first and the best of each
    set, METEOR and TER of the first outputs, and the fraction of duplicates.
    """
    lowered = [[text.lower() for text in texts] for texts in outputs]
    references = [clean(text, True) for text in references]
    values = [float(x) for x in np.nanmean(rows[:, : len(ORDERS)], axis=0)]
    scorer = sacrebleu.BLEU(max_ngram_order=2, effective_order=True)

    def nearest(texts: list[str], reference: str) -> str:
        return max(
            texts, key=lambda text: scorer.sentence_score(text, [reference]).score
        )

    best = list(map(nearest, lowered, references))
    every = [text for texts in lowered for text in texts]
    repeated = [
        to for texts, to in zip(lowered, references, strict=True) for _ in texts
    ]
    corpus = sacrebleu.BLEU(max_ngram_order=2)
    first = [texts[0] for texts in lowered]
    for hypotheses, to in ((every, repeated), (first, references), (best, references)):
        values.append(corpus.corpus_score(hypotheses, [list(to)]).score)
    sums = dict(zip(SENTENCE, rows.sum(axis=0), strict=True))
    values += [sums["METEOR"] / len(rows), 100 * sums["edits"] / sums["TER words"]]
    same = sum(len(texts) - len(set(texts)) for texts in lowered)
    values.append(100 * same / len(every))
    return values


def settings(options: argparse.Namespace) -> dict[str, Setting]:
    """Returns the requested rows."""
    found = dict(ROWS)
    if options.sweep:
        for mode in ("step", "final"):
            for lam in LAMBDAS:
                found[f"DiPS {mode}, lambda {lam}"] = (
                    "dips",
                    {"mode": mode, "lam": lam},
                )
    if options.ablation:
        for place, term in enumerate(TERMS):
            mu = tuple(float(i != place) for i in range(4))
            for mode in ("step", "final"):
                found[f"DiPS {mode}, no {term}"] = ("dips", {"mode": mode, "mu": mu})
    for label, (sampler, setting) in list(found.items()):
        for variant in options.variants if sampler == "dips" else ():
            end = "" if variant == dips.DiPSOptions.variant else f", {variant}"
            found[label + end] = (sampler, {**setting, "variant": variant})
        if sampler == "dips" and dips.DiPSOptions.variant not in options.variants:
            del found[label]
    if options.only:
        found = {
            k: v for k, v in found.items() if any(fnmatch(k, o) for o in options.only)
        }
    return found


def columns(synonyms: translation.Synonyms | None) -> list[str]:
    """Returns the names of the columns; the results of `figures` come first."""
    meteor = "METEOR" if synonyms else "METEOR (stems)"
    return [
        *(f"distinct-{n}" for n in ORDERS),
        "BLEU",
        "BLEU of the first",
        "best BLEU",
        f"{meteor} of the first",
        "TER of the first",
        "duplicates",
        "unfinished",
        "s / batch",
    ]


def rows_of(options: argparse.Namespace) -> dict[str, tuple[list[str], Setting]]:
    """Returns row -> (models, decoder)."""
    names = [registry.with_adapter(one, options.adapter) for one in options.model]
    found = {label: (names, setting) for label, setting in settings(options).items()}
    for label, (option, setting) in OTHERS.items():
        folders_of = getattr(options, option)
        if folders_of and any(fnmatch(label, only) for only in options.only or "*"):
            found[label] = (folders_of, setting)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text_dir", type=Path, required=True)
    parser.add_argument(
        "--pairs", choices=(pairs_of.QUORA, pairs_of.TWITTER), default=pairs_of.QUORA
    )
    parser.add_argument("--model", nargs="+", required=True)
    parser.add_argument("--adapter")
    for option in ("vae_svg", "rbm"):
        parser.add_argument(
            f"--{option}", nargs="+", help=f"runs of configs/paraphrase_{option}.gin"
        )
    parser.add_argument("--sources", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--num", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=("equation3", "normalized", "program"),
        default=[dips.DiPSOptions.variant],
        help="formulas of all rows of DiPS",
    )
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=Path, help="JSON lines to add the rows to")
    parser.add_argument(
        "--wordnet_dir", help="for METEOR; without it words and stems count alone"
    )
    return parser.parse_args()


def parts_of(options: argparse.Namespace) -> list[list[tuple[str, str]]]:
    """Returns the clean pairs of each seed."""
    os.environ[folders.TEXT_DIR_VARIABLE] = str(options.text_dir)
    source = pairs_of.named()[options.pairs]
    first_of: dict[str, tuple[str, str]] = {}
    for pair in pairs_of.unseen(source.read("test"), source.read("train")):
        first_of.setdefault(pair[0], pair)
    pairs = [*first_of.values()]
    size, models = options.sources, len(options.model)
    if models > 1:
        return [pairs[:size]] * models
    print(f"{len(pairs)} clean pairs, of which {options.seeds} times {size} are used")
    found = [pairs[size * s : size * (s + 1)] for s in range(options.seeds)]
    if not found[-1]:
        raise UserError(
            f"--seeds {options.seeds} with --sources {size}: there are {len(pairs)} "
            "clean pairs. Give fewer of one of them."
        )
    return found


def main() -> None:
    options = arguments()
    synonyms = WordNet(options.wordnet_dir).shared if options.wordnet_dir else None
    parts = parts_of(options)
    names = columns(synonyms)
    done = []
    if options.out and options.out.exists():
        done = [json.loads(line)["row"] for line in options.out.open(encoding="utf-8")]
    print(markdown_head(["decoder", *names]))
    makers: dict[tuple[str, ...], list[Outputs]] = {}
    for label, (models, setting) in rows_of(options).items():
        if label in done:
            continue
        if tuple(models) not in makers and setting[0] != "copy":
            makers[tuple(models)] = _makers(models, parts, options)
        values, numbers = [], []
        for seed, pairs in enumerate(parts):
            references = [reference for _, reference in pairs]
            if setting[0] == "copy":
                texts = [[clean(source, True)] * options.num for source, _ in pairs]
                endless = seconds = 0.0
            else:
                texts, endless, seconds = makers[tuple(models)][seed](setting)
            rows = sentences(texts, references, synonyms)
            found = figures(texts, references, rows)
            values.append([*found, 100 * endless, seconds])
            numbers.append(rows.round(3).tolist())
        print(markdown([label, *map(_figure, zip(*values, strict=True))]), flush=True)
        if options.out:
            line = {"row": label, "columns": names, "seeds": values}
            line |= {"numbers": SENTENCE, "sentences": numbers}
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _makers(
    models: Sequence[str], parts: Sequence[Any], options: argparse.Namespace
) -> list[Outputs]:
    """Returns the decoder of each seed: its model with its pairs."""
    loaded = {name: registry.load(name) for name in models}
    own = [loaded[models[seed % len(models)]] for seed in range(len(parts))]
    # All seeds share one shape, hence one compiled program.
    length = max(
        len(model.encode(clean(text, False)))
        for model, pairs in zip(own, parts, strict=True)
        for text, _ in pairs
    )
    return [
        Outputs(
            model,
            [source for source, _ in pairs],
            options.batch_size,
            options.num,
            seed,
            length,
        )
        for seed, (model, pairs) in enumerate(zip(own, parts, strict=True))
    ]


def _figure(values: Sequence[float]) -> str:
    """Returns the mean over the seeds, and their standard deviation."""
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.1f}"


if __name__ == "__main__":
    main()
