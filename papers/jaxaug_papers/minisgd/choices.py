"""Which values a slot may still take, given those of the other slots."""

from collections.abc import Collection, Mapping

from jaxaug_papers.minisgd.world import ServiceSpec, SlotSpec


def free_values(
    slot: SlotSpec,
    spec: ServiceSpec,
    known: Mapping[str, str],
    wanted: Collection[str],
) -> list[str]:
    """Returns the values that no other slot of the service has, starts before their ends.

    Nobody flies Paris-Paris, or checks out before checking in. Where fewer than two
    values are in order, the order is given up: who rejects one has to name another.

    Args:
        slot: the slot to fill.
        spec: its service.
        known: the values told so far, by slot, without dontcare.
        wanted: slots that have been or may still be told.
    """
    taken = {
        value
        for name, value in known.items()
        if name != slot.name and not slot.is_categorical
    }
    free = [value for value in slot.values if value not in taken]
    low, high = _bounds(slot, spec, known, wanted)
    ordered = [value for value in free if low <= slot.values.index(value) < high]
    return ordered if len(ordered) > 1 else free


def _bounds(
    slot: SlotSpec,
    spec: ServiceSpec,
    known: Mapping[str, str],
    wanted: Collection[str],
) -> tuple[int, int]:
    """Returns the positions in the value list: the first allowed, and one after the last."""
    order = slot.values
    low, high = 0, len(order)
    # A slot still to be told is left two values to choose from.
    if slot.before in known:
        high = order.index(known[slot.before])
    elif slot.before in wanted:
        high -= 2
    for start in (other.name for other in spec.slots if other.before == slot.name):
        if start in known:
            low = order.index(known[start]) + 1
        elif start in wanted:
            low = 2
    return low, high
