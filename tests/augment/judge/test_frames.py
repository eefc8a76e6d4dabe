import pytest

from jaxaug.augment.judge import phrases


@pytest.mark.parametrize(
    ("kind", "text", "inside"),
    [
        ("intent", "help the user book a flight", "book a flight"),
        ("intent", "When somebody wants to book a flight", "book a flight"),
        ("intent", "the user would like to book a flight", "book a flight"),
        ("intent", "request to book a flight", "book a flight"),
        ("intent", "to book a flight", "book a flight"),
        ("service", "Service that lets you fix bikes", "fix bikes"),
        ("service", "Platform on which you can fix bikes", "fix bikes"),
        ("service", "App to fix bikes", "fix bikes"),
        ("service", "Helps people fix bikes", "fix bikes"),
        ("slot", "hotel city that the user wants", "hotel city"),
        ("slot", "requested hotel city", "hotel city"),
        ("slot", "seats to look for", "seats"),
        ("slot", "tells if it is new or not", "whether it is new"),
        ("slot", "flag for whether it is new", "whether it is new"),
        ("slot", "is it new?", "is it new"),
        # These descriptions name their topic.
        ("intent", "help a neighbor", "help a neighbor"),
        ("intent", "request a refund", "request a refund"),
        ("slot", "person who wants to go", "person who wants to go"),
        ("slot", "requested", "requested"),
    ],
)
def test_frames(kind, text, inside):
    assert phrases.inside(kind, text) == inside
    assert phrases.is_framed(kind, text) is (inside != text.rstrip("?"))
