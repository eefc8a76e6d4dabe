"""The outputs of a scheme for each text, drawn once or, where few are left, again."""

import zlib
from collections.abc import Container, Sequence

from jaxaug.augment import context
from jaxaug.augment.config import Config
from jaxaug.augment.descriptions import Description
from jaxaug.augment.schemes import registry
from jaxaug.core.shards import Shards, Stage
from jaxaug.paraphrase import candidates
from jaxaug.paraphrase.candidates import Candidate

Output = tuple[str, list[str]]
"""The label of a setting and what it gave for a text."""


def seed_of_round(seed: int, number: int) -> int:
    """The seed of a round's outputs; that of the first is the run's own."""
    return zlib.crc32(f"round {number} of seed {seed}".encode()) if number else seed


def draw(
    config: Config,
    sources: Sequence[str],
    shards: Shards,
    chosen: Container[int] | None = None,
    number: int = 0,
    descriptions: Sequence[Description] = (),
) -> dict[str, list[Output]]:
    """What each setting gives for each text.

    Args:
      config: of the run.
      sources: distinct texts.
      shards: of all runs.
      chosen: shards to work on; nothing of the texts of others. None is all.
      number: of the round, for the progress bar.
      descriptions: of the schema, as context for models behind an endpoint.
    """
    outputs: dict[str, list[Output]] = {text: [] for text in sources}
    jobs = registry.jobs(config)
    again = f" again, {number + 1}/{config.rounds}" if number else ""
    for place, job in enumerate(jobs, 1):
        label = f"candidates{again} {place}/{len(jobs)}"
        stage = Stage("candidates", job.key, job.run, label)
        items = context.items(sources, descriptions) if job.endpoint else sources
        results = shards.run(stage, items, chosen)
        for text, given in zip(sources, results, strict=True):
            if given is not None:
                outputs[text].append((job.label, given))
    return outputs


def merged(config: Config, text: str, outputs: Sequence[Output]) -> list[Candidate]:
    """The distinct candidates of a text, the most common first."""
    return candidates.merged(text, outputs, config.tidy)
