"""Slot names and values of MultiWOZ, normalized as by MultiWOZ_Evaluation.

Nekvinda and Dusek, 2021 (https://arxiv.org/abs/2106.05555) publish a program that maps
misspelled values to the entries of the MultiWOZ data base. The tables list the
spellings that it treats as equal. Differences to the program:

- Letter case and runs of spaces are ignored for every slot.
- Rules for times are applied until nothing changes. The program applies them once, so
  that `8 pm.` becomes `8 pm` there, and `20:00` here.
- Hours of more than two digits before `pm` are not increased by 12.
"""

import re
from collections.abc import Callable, Mapping

from jaxaug.core.text import clean
from jaxaug.data.schema import Service
from jaxaug.data.sgd import State
from jaxaug.metrics.slot_scores import StateLike


def _table(lines: str) -> dict[str, str]:
    """Returns spelling -> value of lines `value: spelling | spelling`."""
    pairs = (line.strip().split(": ") for line in lines.strip().splitlines())
    return {
        spelling: value for value, found in pairs for spelling in found.split(" | ")
    }


_NAMES = _table("""
    acorn guest house: acorn house
    arbury lodge guesthouse: arbury guesthouse | arbury guesthouse and lodge
    bridge guest house: bridge house
    broughton house gallery: broughton gallery
    cafe jello gallery: cafe jello museum
    caffe uno: cafe uno | caffee uno
    cambridge university botanic gardens: cambridge botanic gardens \
| the botanical gardens at cambridge university
    christ's college: christ college | christs
    city center north b and b: city center b and b
    cityroomz: cityrooms
    express by holiday inn cambridge: holiday inn exlpress, cambridge
    hotel du vin and bistro: hotel du vin bistro
    huntingdon marriott hotel: huntingdon hotel
    junction theatre: the junction
    limehouse: lime house
    nandos city centre: nandos in the city centre
    nandos: nando's
    parkside swimming pool: parkside pools
    restaurant one seven: restaurant 1 7 | restaurant 17
    restaurant two two: restaurant 2 2 | restaurant 2 two | restaurant two 2 \
| restaurant called two two
    rosas bed and breakfast: rosa's
    scudamores punting co: scudamores punt co
    the river bar steakhouse and grill: the river bar and grill
    trinity college: trinity street college
    university arms hotel: university hotel
    whale of a time: whale of time
    whipple museum of the history of science: history of science museum
""")
_FOODS = _table("""
    asian: asian or oriental
    australian: australasian
    british: bristish | brutish | english
    european: europeon
    gastropub: gastropod
    italian: intalian | italain
    mediterranean: eriterean
    north american: americas | modern american
    portuguese: brazilian | portugese
    seafood: sea food
""")
_TYPES = _table("""
    guesthouse: guest house
    multiple sports: mutliple sports
    nightclub: night club
    swimmingpool: swimming pool
""")
_OFFERS = {"free": "yes"}
_TIMES = _table("""
    06:45: six fourty five
    07:00: seven o'clock tomorrow evening
    08:00: morning
    08:30: eight thirty
    12:00: around lunch time | lunch | mid-day | noon
    13:00: afternoon
    13:30: one thirty p.m.
    15:45: three forty five p.m
""")
_TIME_STARTS = {"one o'clock p.m": "13:00", "ten o'clock a.m": "10:00"}
_BEFORE_TIME = re.compile("^(?:by|after|afer) ?")
_AM = re.compile(r" ?(?:am|a\.m\.)$")
_PM = re.compile(r" ?(?:pm|p\.m\.)$")
_HOUR = re.compile("([0-9]{1,2}) ?(:[^:]*)?")
_SHORT_NAMES = {"arriveby": "arrive", "leaveat": "leave"}


def _name(text: str) -> str:
    text = clean(text.replace("&", " and "), False).replace(" '", "'")
    return _NAMES.get(text, text)


def _time(text: str) -> str:
    while (found := clean(_time_once(text), False)) != text:
        text = found
    return text


def _time_once(text: str) -> str:
    if text in _TIMES:
        return _TIMES[text]
    for start, time in _TIME_STARTS.items():
        if text.startswith(start):
            return time
    text = _AM.sub("", _BEFORE_TIME.sub("", text))
    morning = _PM.sub("", text)
    if morning != text:
        # The program adds 12 to 12 too: `12 pm` becomes 24:00.
        if hour := _HOUR.fullmatch(morning):
            return f"{int(hour[1]) + 12}{hour[2] or ':00'}"
        text = morning
    if not text:
        return "00:00"
    text = text[:-1] if text[-1] in ".,?" else text
    if re.fullmatch("[0-9]{4}", text):
        return f"{text[:2]}:{text[2:]}"
    if re.fullmatch("[0-9]+", text):
        return f"{text.zfill(2)}:00"
    if ":" in text:
        text = text.replace(" ", "")
    return f"0{text}" if re.fullmatch("[0-9]:[0-9]{2}", text) else text


def _lookup(table: Mapping[str, str]) -> Callable[[str], str]:
    return lambda text: table.get(text, text)


# The program leaves the slots `booktime` and `openhours` as they are.
_RULES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("name", "destination", "departure"), _name),
    **dict.fromkeys(("arrive", "leave", "time"), _time),
    **dict.fromkeys(("parking", "internet"), _lookup(_OFFERS)),
    "food": _lookup(_FOODS),
    "type": _lookup(_TYPES),
}


def normalized_name(service: str, slot: str) -> str:
    """Returns the name in which two slot names are compared.

    Args:
        service: name of the service, which may be the prefix of the slot name.
        slot: name of the slot in any version of MultiWOZ.

    >>> normalized_name("taxi", "taxi-leaveAt"), normalized_name("hotel", "book people")
    ('leave', 'bookpeople')
    """
    name = "".join(slot.lower().split()).removeprefix(f"{service.lower()}-")
    return _SHORT_NAMES.get(name, name)


def normalized_value(name: str, value: str) -> str:
    """Returns the form in which two values of a slot are compared.

    Args:
        name: the slot, as `normalized_name` returns it.
        value: a value of the slot in any spelling.

    >>> normalized_value("leave", "after 5:15 PM")
    '17:15'
    """
    text = clean(value, True)
    return _RULES[name](text) if name in _RULES else text


def normalized_state(state: StateLike, service: Service) -> State:
    """Returns a state with the slot names of a service and normalized values.

    If several names mean the same slot, the schema's name wins, then the first one.
    Slots that the service lacks keep their names.
    """
    names = {normalized_name(service.name, slot.name): slot for slot in service.slots}
    exact = {slot.name for slot in service.slots}
    values: dict[str, tuple[str, ...]] = {}
    for name in sorted(state.slot_values, key=lambda name: name not in exact):
        short = normalized_name(service.name, name)
        known = name if name in exact or short not in names else names[short].name
        values.setdefault(
            known,
            tuple(normalized_value(short, value) for value in state.slot_values[name]),
        )
    return State(state.active_intent, tuple(state.requested_slots), values)
