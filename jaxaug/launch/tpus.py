"""Types of Cloud TPUs: the chips, hosts, and images that a type name stands for."""

import dataclasses

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion

# Chips -> how they are wired, as GKE names it.
_FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16"}
_FLAT |= {256: "16x16"}
_CUBES = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8"}
_CUBES |= {256: "4x8x8", 512: "8x8x8", 1024: "8x8x16", 2048: "8x16x16"}
_CHIPS_OF_A_HOST = 4


@dataclasses.dataclass(frozen=True)
class _Family:
    image: str  # Of a TPU VM.
    gke: str  # The label of GKE's nodes.
    topologies: dict[int, str]
    unit: int  # The number in a name counts chips (1) or TensorCores (2 a chip).


_FAMILIES = {
    "v4": _Family("tpu-ubuntu2204-base", "tpu-v4-podslice", _CUBES, 2),
    "v5litepod": _Family("v2-alpha-tpuv5-lite", "tpu-v5-lite-podslice", _FLAT, 1),
    "v5p": _Family("v2-alpha-tpuv5", "tpu-v5p-slice", _CUBES, 2),
    "v6e": _Family("v2-alpha-tpuv6e", "tpu-v6e-slice", _FLAT, 1),
}


@dataclasses.dataclass(frozen=True)
class Slice:
    """One TPU slice: `hosts` machines with `chips` chips each.

    Attributes:
        image: software version of a TPU VM.
        gke: label of the nodes in GKE.
        topology: arrangement of the chips, such as `2x4`.
        hosts: number of machines.
        chips: number of chips per machine.
    """

    image: str
    gke: str
    topology: str
    hosts: int
    chips: int


def parse(name: str) -> Slice:
    """Returns the TPU slice that a name such as `v5litepod-16` stands for.

    Raises:
        UserError: the family is unknown, or does not have this size.
    """
    kind, _, number = name.partition("-")
    if kind not in _FAMILIES:
        raise UserError(
            f"--type {name}: unknown kind of TPU {kind!r}; "
            f"{suggestion(kind, _FAMILIES)} Give KIND-NUMBER, such as v5litepod-16."
        )
    family = _FAMILIES[kind]
    sizes = {str(chips * family.unit): chips for chips in family.topologies}
    if number not in sizes:
        raise UserError(
            f"--type {name}: there is no such size; give one of "
            f"{', '.join(f'{kind}-{size}' for size in sizes)}."
        )
    chips = sizes[number]
    # Only the flat ones come as one host with 8 chips.
    single = chips <= (8 if family.unit == 1 else _CHIPS_OF_A_HOST)
    of_a_host = chips if single else _CHIPS_OF_A_HOST
    return Slice(
        image=family.image,
        gke=family.gke,
        topology=family.topologies[chips],
        hosts=chips // of_a_host,
        chips=of_a_host,
    )
