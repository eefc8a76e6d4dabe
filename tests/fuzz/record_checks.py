"""Comparisons of records with the JSON from which they were read."""


def assert_distinct(names):
    assert all(names) and len(set(names)) == len(names)


def equal_where_given(mine, given):
    """Compares JSON values, ignoring keys of `given` that `mine` lacks."""
    if isinstance(mine, dict):
        return isinstance(given, dict) and all(
            key in given and equal_where_given(value, given[key])
            for key, value in mine.items()
        )
    if isinstance(mine, list):
        return (
            isinstance(given, list)
            and len(mine) == len(given)
            and all(map(equal_where_given, mine, given))
        )
    return type(mine) is type(given) and mine == given


def frame_object(frame):
    state = frame.state and {
        "active_intent": frame.state.active_intent,
        "requested_slots": list(frame.state.requested_slots),
        "slot_values": {k: list(v) for k, v in frame.state.slot_values.items()},
    }
    return {"service": frame.service} | ({"state": state} if state else {})
