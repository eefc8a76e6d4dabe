"""Summary of `jaxaug levels`: how full the quotas are, and the effect of the filter."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from jaxaug.curriculum.levels import Levelled
from jaxaug.curriculum.quotas import Candidate


class Choices(Protocol):
    """Options that the summary names; see `generate.Options`."""

    @property
    def quota(self) -> Mapping[str, int]: ...
    @property
    def similarity(self) -> str: ...
    @property
    def implication(self) -> str: ...
    @property
    def beta(self) -> float | None: ...
    @property
    def levels(self) -> int: ...


def summary(
    items: Sequence[Levelled],
    found: Sequence[Sequence[Candidate]],
    options: Choices,
    asked: Mapping[str, int],
) -> str:
    """Returns the summary as lines of text.

    Args:
        items: texts with the kept paraphrases.
        found: all distinct candidates of each text.
        options: options of the run.
        asked: sampler -> number of requested outputs.
    """
    sizes = [sum(map(len, item.levels[1:])) for item in items]
    empty = sum(not all(item.levels) for item in items)
    wanted = sum(options.quota.values())
    fallen = (
        f"{sum(size < wanted for size in sizes):,} texts have fewer than {wanted} "
        "(more --rounds or --oversample give more); "
        f"{empty:,} have an empty level, which "
        f"falls back to the next easier one; {sum(not s for s in sizes):,} have none "
        f"and stand for themselves."
    )
    lines = [
        (
            f"{sum(sizes):,} paraphrases of {len(items):,} texts in {options.levels} "
            f"levels."
        ),
        *(_of_sampler(name, found, options, asked[name]) for name in options.quota),
        _filter(options, [one for own in found for one in own]),
        fallen,
    ]
    return "\n".join(lines)


def _of_sampler(
    name: str, found: Sequence[Sequence[Candidate]], options: Choices, asked: int
) -> str:
    quota = options.quota[name]
    own = [[one for one in group if one.sampler == name] for group in found]
    passed = [sum(one.passed for one in group) for group in own]
    number = sum(map(len, own))
    return (
        f"{name}: of {asked:,} outputs {number:,} are new, "
        f"{_part(sum(passed), number)} of which passed the filter; "
        f"{sum(min(n, quota) for n in passed):,} are kept, {quota * len(found):,} are "
        f"the quota."
    )


def _filter(options: Choices, every: Sequence[Candidate]) -> str:
    least = "whatever it is" if options.beta is None else f"{options.beta} or more"
    implied = sum(one.implied for one in every)
    rescued = sum(one.passed and not one.implied for one in every)
    if options.implication != "none":
        return (
            f"Filter: {options.implication} says implied both ways of "
            f"{_part(implied, len(every))}; similarity ({options.similarity}) {least} "
            f"let {_part(rescued, len(every))} more pass."
        )
    return (
        f"Filter: no model of implication (`jaxaug models fetch roberta-mi` gets the "
        f"paper's), so similarity ({options.similarity}) alone, {least}: "
        f"{_part(rescued, len(every))} passed."
    )


def _part(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.0f} %)" if whole else f"{part:,}"
