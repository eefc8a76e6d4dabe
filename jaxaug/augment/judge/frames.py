"""Frames around a text that name the person, but add nothing to the content.

"Help the user book a flight", "service that lets people book flights", and "request to
book a flight" all mean "book a flight". A judge compares the texts inside the frames.
"""

import re

_WHO = r"(?:(?:the |a )?(?:users?|customers?|people|person)|somebody|someone|you)"
_WANTS = r"(?:wants?|would like|wishes|wish|needs?)"
_ASKS = r"(?:gives?|asks? for|prefers?|chooses?|selects?|means?)"
_SAYS = r"(?:tells?|says?|indicates?|shows?)"
_THING = (
    r"(?:(?:an? |the )?(?:app|application|platform|service|website|site|portal|"
    r"system|request)s? )"
)
_HELPS = r"(?:helps?|lets?|allows?|enables?)"


def _table(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(rule, re.IGNORECASE), by) for rule, by in rules)


# The first match is removed.
_ORDERS = _table(
    (rf"^(?:(?:when|if) )?{_WHO} {_WANTS} to ", ""),
    (
        rf"^{_THING}?(?:(?:that|which) )?{_HELPS} {_WHO} (?:to )?",
        "",
    ),
    (rf"^{_THING}(?:(?:on|in|with|through) which|where) {_WHO} (?:can|may) ", ""),
    (rf"^{_THING}(?:to|for) ", ""),
    (r"^to (?=\w+ )", ""),
)
# All matches are removed.
_SLOTS = _table(
    (
        rf" (?:that )?{_WHO} (?:{_WANTS}|{_ASKS}|(?:is|are) looking for)$",
        "",
    ),
    (r" that (?:is|are) (?:wanted|given|requested|needed)$", ""),
    (r" to (?:look|search|ask) for$", ""),
    (r" or not$", ""),
    (
        rf"^(?:{_SAYS}|true|yes|flag)\b(?: for)? (?:if|whether|when)(?: or not)? ",
        "whether ",
    ),
    (r"^(?:the )?(?:requested|desired|preferred|wanted|chosen|selected) ", ""),
    (r"^(?:total|full|exact) (?=number|count)", ""),
)


def inside(kind: str, text: str) -> str:
    """Returns the text without its frame.

    Args:
        kind: "slot", or anything else for orders.
        text: text of a description.

    Returns:
        The text inside the frame; the text itself if nothing would be left.
    """
    found = text.strip().rstrip("?.")
    if kind == "slot":
        for rule, by in _SLOTS:
            found = rule.sub(by, found)
    else:
        for rule, by in _ORDERS:
            rest = rule.sub(by, found, count=1)
            if rest != found:
                found = rest
                break
    return found if found.strip() else text


def is_framed(kind: str, text: str) -> bool:
    """Returns whether a text has a frame."""
    return inside(kind, text) != text.strip().rstrip("?.")
