"""Splits of dialogues between which no persona is shared.

The 1,000 validation dialogues of ConvAI2 have about 100 personas: a random split would
test on personas that the model was trained on. Here dialogues whose own personas have a
trait in common, however indirectly, stay together.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError

SHARES: Mapping[str, int] = {"train": 8, "validation": 1, "test": 1}
"""Split -> its share of the dialogues."""


@dataclass(frozen=True, slots=True)
class PersonaSplit:
    """The dialogues of each split.

    Attributes:
        seed: of the draw.
        groups: how many sets of dialogues were drawn, each as a whole.
        members: split -> ids of its dialogues, in the order in which they were given.
    """

    seed: int
    groups: int
    members: Mapping[str, tuple[str, ...]]

    @property
    def digest(self) -> str:
        """Hash of the members: equal where the splits are equal."""
        return digest_of({name: list(ids) for name, ids in self.members.items()})


def by_persona(
    personas: Mapping[str, Collection[str]],
    seed: int = 0,
    shares: Mapping[str, int] = SHARES,
) -> PersonaSplit:
    """Splits dialogues at random, so that no trait is in two splits.

    The groups of dialogues are put in a random order. Each split gets one, and each of
    the others goes to the split that lacks most of its share.

    Args:
        personas: id of a dialogue -> the traits of its own persona. A dialogue without
            traits is a group by itself.
        seed: of the order.
        shares: see `SHARES`.

    Raises:
        UserError: there are fewer groups than splits.
    """
    groups = _groups(personas)
    if len(groups) < len(shares):
        raise UserError(
            f"{len(personas)} dialogues have {len(groups)} personas that share no "
            f"trait, which cannot make {len(shares)} splits: give more dialogues."
        )
    random.Random(seed).shuffle(groups)
    total = sum(shares.values())
    split_of: dict[str, str] = {}
    sizes = dict.fromkeys(shares, 0)
    for group in groups:
        # An empty split, then the one that lacks most of its share; the first of equals.
        name = max(
            shares,
            key=lambda one: (
                not sizes[one],
                shares[one] * len(personas) / total - sizes[one],
            ),
        )
        sizes[name] += len(group)
        split_of.update(dict.fromkeys(group, name))
    members = {
        name: tuple(one for one in personas if split_of[one] == name) for name in shares
    }
    return PersonaSplit(seed, len(groups), members)


def _groups(personas: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Returns the dialogues that share traits, however indirectly, in order of appearance."""
    parent = {one: one for one in personas}

    def root(one: str) -> str:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    first: dict[str, str] = {}
    for one, traits in personas.items():
        for trait in traits:
            parent[root(one)] = root(first.setdefault(trait, one))
    groups: dict[str, list[str]] = {}
    for one in personas:
        groups.setdefault(root(one), []).append(one)
    return list(groups.values())
