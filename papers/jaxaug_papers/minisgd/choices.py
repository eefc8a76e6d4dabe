"""The valid values of a slot, given the values of the other slots."""

from collections.abc import Collection, Mapping

from jaxaug_papers.minisgd.world import ServiceSpec, SlotSpec


def free_values(
    slot: SlotSpec, spec: ServiceSpec, known: Mapping[str, str], wanted: Collection[str]
) -> list[str]:
    """Returns the values that no other slot of the service has, in a plausible order.

    Origin and destination differ, and a start is before its end. If fewer than two
    values satisfy the order, the order is ignored, because users who reject a value
    need another one.

    Args:
        known: current values by slot, without dontcare.
        wanted: slots that have a value or may still get one.
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
    slot: SlotSpec, spec: ServiceSpec, known: Mapping[str, str], wanted: Collection[str]
) -> tuple[int, int]:
    """Returns the range (first, end) of valid positions in the value list."""
    order = slot.values
    low, high = 0, len(order)
    # Two values are reserved for a slot that has no value yet.
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
