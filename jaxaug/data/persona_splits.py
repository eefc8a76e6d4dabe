"""Splits of dialogues that share no persona.

The 1,000 validation dialogues of ConvAI2 have about 100 personas. With a random split,
the test would use personas of the training. Here dialogues whose personas share a
trait, directly or through other dialogues, stay in the same split.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError

SHARES: Mapping[str, int] = {"train": 8, "validation": 1, "test": 1}
"""Split -> share of the dialogues."""


@dataclass(frozen=True, slots=True)
class PersonaSplit:
    """The dialogues of each split.

    Attributes:
        seed: seed of the draw.
        groups: number of groups of dialogues; a group is never divided.
        members: split -> ids of its dialogues, in the order of the input.
    """

    seed: int
    groups: int
    members: Mapping[str, tuple[str, ...]]

    @property
    def digest(self) -> str:
        """A hash of the members; equal splits have equal hashes."""
        return digest_of({name: list(ids) for name, ids in self.members.items()})


def by_persona(
    personas: Mapping[str, Collection[str]],
    seed: int = 0,
    shares: Mapping[str, int] = SHARES,
) -> PersonaSplit:
    """Splits dialogues at random so that no trait occurs in two splits.

    The groups of dialogues are shuffled. Each split gets one group. Every further group
    goes to the split that lacks most of its share.

    Args:
        personas: dialogue id -> traits of the persona. A dialogue without traits forms
            a group alone.
        seed: seed of the shuffle.
        shares: split -> share of the dialogues; the default is `SHARES`.

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
        # Empty splits come first, then the one that lacks most; ties go to the first.
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
    """Returns the groups of dialogues connected by shared traits, in order."""
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
