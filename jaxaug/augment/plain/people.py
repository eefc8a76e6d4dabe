"""Paraphrases of plain sentences for people.

This is `jaxaug paraphrase` without a sampler or prompt. Rules (`wordings`) and a model
write many candidates. The filter (`faithful`) keeps those with the meaning of the
sentence. A sentence may have no paraphrase, as no text is better than a wrong one.
"""

import dataclasses
import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.augment.judge import likelihood, network, verdicts
from jaxaug.augment.plain import faithful, text, wordings
from jaxaug.augment.plain.faithful import OFF, STRICT
from jaxaug.augment.plain.text import Outputs
from jaxaug.augment.schemes import registry
from jaxaug.core import cache_folder, typed
from jaxaug.core.digests import code_digest, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Json, Shards, Stage
from jaxaug.core.text import spaced
from jaxaug.data import tables
from jaxaug.models.endpoint.server import PREFIX, is_endpoint
from jaxaug.paraphrase import candidates, endpoint_run
from jaxaug.paraphrase.arguments import Paraphrase

MODEL: str = likelihood.MODEL
NUM = 5
"""Model and maximum number of paraphrases of a plain call."""
AUTO = "auto"
_SERVER = ("endpoint", "key_variable", "max_requests", "prices")
_PROMPT, _BASE = "sentence", "smollm2"
_RULES = "rules"
_SAMPLER = {
    "sampler": "top_k_top_p",
    "options": {"k": 40, "p": 0.9, "temperature": 0.8},
}
_RULED = 12  # Maximum rewordings by rule of each text.
_DRAWN = 16  # Outputs of a model on this machine, for each text.
# Draws of the default model for each grade, and those for texts that lack paraphrases:
# less probable outputs fill a third of them.
_DRAWS: tuple[dict[str, Any], ...] = (
    {"num": 8, "best": 4},
    {"num": 8, "best": 8, "temperature": 0.8},
)
# Maximum characters of a text -> maximum tokens of its outputs.
_ROOM = {100: 32, 300: 96}
_SHARD, _SHARD_ASKED = 4, 16  # Texts that an interruption may lose.
# Score that a paraphrase loses if it shares all word pairs with a selected one.
_ALIKE = 1.0


def _checked(given: Paraphrase) -> Paraphrase:
    """Returns the options with model, number, and filter.

    Raises:
        UserError: a model of this machine has the option of a server.
    """
    plain: dict[str, Any] = {"num": NUM, "model": MODEL, "filter": AUTO}
    names = {name for name in plain if getattr(given, name) is None}
    choices = dataclasses.replace(given, **{name: plain[name] for name in names})
    endpoint_run.check(choices, (), _SERVER)
    return choices


def run(given: Paraphrase) -> int:
    """Runs the verb `jaxaug paraphrase`, with and without a sampler or prompt."""
    if given.sampler or given.prompt:
        return endpoint_run.run(given)
    choices = _checked(given)
    endpoint_run.check_plain(given)
    if choices.dry_run:
        # The filter loads models, which only a real run needs.
        work = _Work(dataclasses.replace(choices, filter="off"))
        texts = tables.read_texts(given.input, given.column)
        print("\n".join([endpoint_run.counted(texts), *work.expected(texts)]))
        return 0
    work = _Work(choices)
    found = text.rewritten(choices, "paraphrase", work.key, work)
    said = found if isinstance(found, str) else work.summary(*found, given.out)
    # Standard output holds only the paraphrases.
    print(said, file=sys.stderr if given.out is None else sys.stdout)
    return 0


@typed.checked
def paraphrase(
    texts: Sequence[typed.Text],
    num: typed.Count = NUM,
    *,
    model: typed.Text = MODEL,
    endpoint: typed.Text | None = None,
    filter: typed.Text = AUTO,
    seed: typed.Seed = 0,
) -> list[list[str]]:
    """Paraphrases sentences.

    Args:
        texts: sentences of up to 300 characters (8,000 with an endpoint).
        num: maximum paraphrases of each sentence.
        model: a name such as "smollm2", the folder of a language model, or
            "openai:NAME" with `endpoint`.
        endpoint: address of a server with the OpenAI chat-completions interface. Its
            key comes from `$OPENAI_API_KEY`.
        filter: "strict" accounts for each word, "light" checks numbers, names,
            negations, persons, and questions, "off" keeps everything that differs.
            "auto" is strict for the default and SmolLM2, else light.
        seed: seed of the sampling.

    Returns:
        Up to `num` paraphrases for each text, the best first. A blank text has none,
        nor has a text for which nothing passes the filter.

    Raises:
        UserError: an argument is wrong, a text is too long, a model is not on this
            machine, or the server fails. Earlier outputs are kept in the cache folder.
    """
    work = _Work(
        _checked(
            Paraphrase(
                input="", num=num, model=model, endpoint=endpoint or None,
                filter=filter, seed=seed,  # type: ignore[arg-type]
            )
        )
    )  # fmt: skip
    found = work(list(texts))
    return [own if one.strip() else [] for one, own in zip(texts, found, strict=True)]


class _Work:
    """Candidates and their verdicts, kept in shards."""

    def __init__(self, choices: Paraphrase):
        self._choices, self._num = choices, choices.num or NUM
        self._model = choices.model or MODEL
        self._asked = is_endpoint(self._model)
        self._strict = choices.filter == STRICT or (
            choices.filter == AUTO and self._model in (MODEL, _BASE)
        )
        size = _SHARD_ASKED if self._asked else _SHARD
        folder = cache_folder.cache_dir() / "augment"
        self._shards, self._judging = Shards(folder, size), Shards(folder)
        # Missing weights raise an error before the work.
        is_off = choices.filter == OFF
        self._judge = MODEL if self._model == MODEL else network.BASE
        self._filter_key = None if is_off else self._key_of_filter()
        self._rounds = self._made()
        self._jobs = [job for jobs in self._rounds for job in jobs.values()]

    def __call__(self, texts: list[str]) -> Outputs:
        """Returns up to `num` paraphrases of each text; a blank text stays."""
        self._check(texts)
        distinct = list(dict.fromkeys(one for one in texts if one.strip()))
        kept: dict[str, list[Json]] = {one: [] for one in distinct}
        for jobs in self._rounds:
            waiting = [one for one in distinct if not kept[one]]
            kept |= self._kept(jobs, waiting)
        chosen = {one: _chosen(own, self._num) for one, own in kept.items()}
        return [chosen[one] if one.strip() else [one] for one in texts]

    def _kept(
        self, jobs: Mapping[int, registry.Job], texts: Sequence[str]
    ) -> dict[str, list[Json]]:
        """Returns the candidates of each text that the filter keeps, with scores."""
        written: dict[str, list[str]] = {}
        for most, job in jobs.items():
            least = max((other for other in jobs if other < most), default=0)
            own = [one for one in texts if least < len(one) <= most]
            stage = Stage("candidates", job.key, job.run, "paraphrase")
            written |= dict(zip(own, self._shards.run(stage, own), strict=True))
        items = [self._merged(one, written[one]) for one in texts]
        if self._choices.filter != OFF:
            stage = Stage("plain", self._filter_key, self._judged, "filter")
            items = self._judging.run(stage, items)
        return {one: kept for one, (_, kept) in zip(texts, items, strict=True)}

    def key(self) -> Json:
        """Returns everything that determines the outputs in addition to the texts."""
        keys = [job.key for job in self._jobs]
        return [keys, self._filter_key]

    def expected(self, texts: Sequence[str]) -> list[str]:
        """Returns the expected requests to the endpoint."""
        endpoint = self._jobs[0].endpoint
        if endpoint is None:
            raise UserError(
                f"--dry_run: model {self._model!r} runs on this machine and costs "
                f"nothing. Leave it out, or name a model {PREFIX}NAME."
            )
        return endpoint.plan(list(dict.fromkeys(t for t in texts if t.strip())))

    def summary(self, texts: Sequence[str], outputs: Outputs, out: Any) -> str:
        """Returns how many texts have paraphrases, and the usage of the server."""
        given = [own for one, own in zip(texts, outputs, strict=True) if one.strip()]
        count = sum(map(len, given))
        some = sum(map(bool, given))
        lines = [f"{count:,} paraphrases of {some:,} of {len(given):,} texts"]
        lines[0] += f"; wrote {out}" if out else ""
        if some < len(given):
            lines.append(
                f"{len(given) - some:,} texts have none: nothing passed the filter. A "
                "larger model (--model openai:NAME --endpoint URL) finds more."
            )
        return "\n".join(
            [*lines, *(j.endpoint.spent() for j in self._jobs if j.endpoint)]
        )

    def _made(self) -> list[dict[int, registry.Job]]:
        """Returns for each round: maximum characters of a text -> the job for it."""
        if self._asked:
            server = endpoint_run.server_of(self._choices)
            block = {k: v for k, v in server.items() if v}
            block |= {"model": self._model, "num": self._num}
            (job,) = registry.made("paraphrase", self._choices.seed, {"grid": [block]})
            return [{sys.maxsize: job}]
        if self._model == MODEL:
            return [
                {
                    most: registry.made(
                        "reworder", self._choices.seed, {**draws, "max_length": tokens}
                    )[0]
                    for most, tokens in _ROOM.items()
                }
                for draws in _DRAWS
            ]
        prompt = {"prompt": _PROMPT} if _takes_prompt(self._model) else {}
        common = {"model": self._model, **_SAMPLER, **prompt, "num": _DRAWN}
        return [
            {
                most: registry.made(
                    "paraphrase",
                    self._choices.seed,
                    {"grid": [{**common, "max_length": tokens}]},
                )[0]
                for most, tokens in _ROOM.items()
            }
        ]

    def _check(self, texts: Sequence[str]) -> None:
        most = max(self._rounds[0])
        for number, one in enumerate(texts, 1):
            if len(one) > most:
                raise UserError(
                    f"text {number} has {len(one):,} characters; {most:,} is the "
                    "maximum. Divide it into sentences."
                )

    def _merged(self, source: str, written: Sequence[str]) -> list[Json]:
        """Returns [text, [candidate, by rule, score] of each candidate]."""
        ruled = [one.text for one in wordings.reword(source, _RULED)]
        outputs = [(_RULES, ruled), (self._model, written)]
        found = candidates.merged(source, outputs)
        return [
            source,
            [
                [one.text, one.settings[0] == _RULES, 0.0]
                for one in found
                if one.text and spaced(one.text).casefold() != spaced(source).casefold()
            ],
        ]

    def _judged(self, items: Sequence[Json]) -> list[Json]:
        """Returns the items without filtered candidates, with scores."""
        pairs = [(source, *one) for source, found in items for one in found]
        sources, texts, trusted = ([pair[i] for pair in pairs] for i in range(3))
        strict, judge = self._strict, self._judge
        found_of = iter(faithful.judged(sources, texts, trusted, strict, judge))
        judged = []
        for source, found in items:
            kept = []
            for candidate, by_rule, _ in found:
                codes, score = next(found_of)
                kept += [] if codes else [[candidate, by_rule, score]]
            judged.append([source, kept])
        return judged

    def _key_of_filter(self) -> Json:
        code = code_digest(faithful, wordings)
        tables = file_digest(wordings.FILE)
        return [verdicts.identity(self._judge), code, tables, self._strict]


def _takes_prompt(model: str) -> bool:
    """Returns whether a model is a language model trained without a prompt."""
    if model == _BASE:
        return True
    # Imported here, as models import JAX.
    from jaxaug.models.text import registry as models
    from jaxaug.models.text.language import LanguageModel

    found = models.load(model)
    return isinstance(found, LanguageModel) and not found.trained_prompt


def _chosen(kept: Sequence[Json], num: int) -> list[str]:
    """Returns the best candidates, each as different as possible from earlier ones."""
    rest = [(score, candidate, _pairs(candidate)) for candidate, _, score in kept]
    chosen: list[str] = []
    taken: list[frozenset[str]] = []
    while rest and len(chosen) < num:
        best = max(rest, key=lambda one: one[0] - _ALIKE * _nearest(one[2], taken))
        rest.remove(best)
        chosen.append(best[1])
        taken.append(best[2])
    return chosen


def _pairs(sentence: str) -> frozenset[str]:
    words = ["", *wordings.expanded(sentence).split()]
    return frozenset(f"{a} {b}" for a, b in itertools.pairwise(words))


def _nearest(pairs: frozenset[str], taken: Sequence[frozenset[str]]) -> float:
    """Returns the Jaccard similarity to the nearest of `taken`, or 0 if empty."""
    return max((len(pairs & one) / len(pairs | one) for one in taken), default=0.0)
