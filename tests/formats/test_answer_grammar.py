"""The languages of answers: exactly the texts that formats write and can read."""

import random

import numpy as np
import pytest

from jaxaug.core.byte_machine import DEAD
from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.formats import answer_grammar
from jaxaug.formats.d3st import D3STOptions
from jaxaug.formats.json_tools import JSONOptions
from jaxaug.formats.sdt import SDTOptions
from jaxaug.formats.t5dst import T5DSTOptions
from jaxaug.track import turns
from jaxaug_papers import minisgd

SERVICE = Service(
    "Events_1",
    "events",
    (
        Slot("city", "city of the event", False, ()),
        Slot("kind", "kind of event", True, ("Music", "Sports")),
        Slot("seats", "number of seats", True, ("1", "2")),
    ),
    (Intent("Find", "find", False, (), (), ()), Intent("Buy", "buy", True, (), (), ())),
)


def examples(options):
    """Returns the examples of a turn without annotation, one per question."""
    schema = Schema((SERVICE,))
    asked = turns.of_object([{"speaker": "USER", "utterance": "a"}], "", schema, "d")
    return list(options.formatter(schema).dialogue(asked))


def language(options, example):
    """Returns the machine of the answers to an example."""
    one = answer_grammar.signature(options, SERVICE, example.key)
    return answer_grammar.machine((one,))


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("[states] [intents] [req_slots]", True),
        (" [states] 0=oslo [intents] i1 [req_slots] 2 0", True),
        ("[states] 0=new york 1=1b 2=2 [intents] i0 [req_slots]", True),
        ("[states] 1=1a | dontcare [intents] [req_slots]", True),
        ("[states] 0=11:30 am | 2=x [intents] [req_slots]", True),
        ("[states] 0=12 angry men [intents] [req_slots]", True),
        ("[states] 1=1c [intents] [req_slots]", False),
        ("[states] 1=2a [intents] [req_slots]", False),
        ("[states] 1=music [intents] [req_slots]", False),
        ("[states] 2=3 [intents] [req_slots]", False),
        ("[states] 2=rn [intents] [req_slots]", False),
        ("[states] 0=oslo 1=x [intents] [req_slots]", False),
        ("[states] 1=1a 0=oslo [intents] [req_slots]", False),
        ("[states] 0=a 0=b [intents] [req_slots]", False),
        ("[states] 3=a [intents] [req_slots]", False),
        ("[states] 0= [intents] [req_slots]", False),
        ("[states] 0=a | [intents] [req_slots]", False),
        ("[states] [intents] i2 [req_slots]", False),
        ("[states] [intents] i0 i1 [req_slots]", False),
        ("[states] [intents] [req_slots] 3", False),
        ("[states] 0=a\u3000b [intents] [req_slots]", False),
        ("[states]", False),
    ],
)
def test_answers_of_d3st(text, accepted):
    options = D3STOptions()
    (example,) = examples(options)
    assert language(options, example).accepts(text.encode()) is accepted
    if accepted:
        assert options.parse(text, example.key).malformed == 0


@pytest.mark.parametrize(
    ("options", "accepted", "refused"),
    [
        (D3STOptions(level="dst"), "[states] 1=1a", "[states] 1=1a [intents]"),
        (D3STOptions(categorical="none"), "[states] 1=music [intents] [req_slots]",
         "[states] 1=1a [intents] [req_slots]"),
        (D3STOptions(digit_options=True), "[states] 2=2b [intents] [req_slots]",
         "[states] 2=2 [intents] [req_slots]"),
        (D3STOptions(delimiter=":"), "[states] 0:11 2:1 [intents] [req_slots]",
         "[states] 0:at 11:30 [intents] [req_slots]"),
    ],
)  # fmt: skip
def test_options_of_d3st(options, accepted, refused):
    found = language(options, examples(options)[0])
    assert found.accepts(accepted.encode()) and not found.accepts(refused.encode())


@pytest.mark.parametrize(
    ("slot", "accepted", "refused"),
    [
        (0, ["none", " oslo", "new york || rome", "[x] 1=a"],
         ["", "a ||", "|| a", "a  b"]),
        (1, ["none", "a", " b || a", "dontcare"], ["c", "music", "none || a", ""]),
        (2, ["none", "a", "b", "dontcare"], ["1", "2", "c"]),
    ],
)  # fmt: skip
def test_answers_of_t5dst(slot, accepted, refused):
    options = T5DSTOptions()
    example = examples(options)[slot]
    found = language(options, example)
    assert [text for text in accepted if not found.accepts(text.encode())] == []
    assert [text for text in refused if found.accepts(text.encode())] == []
    assert not any(options.parse(text, example.key).malformed for text in accepted)


@pytest.mark.parametrize("options", [D3STOptions(), T5DSTOptions()])
def test_every_text_of_a_language_can_be_read(options):
    rng = random.Random(0)
    known = {s.name: {*s.possible_values, "dontcare"} for s in SERVICE.slots[1:]}
    for example in examples(options):
        machine = language(options, example)
        for _ in range(100):
            state, text = machine.starts[0], bytearray()
            while not (machine.accepting[state] and rng.random() < 0.2):
                moves = np.flatnonzero(machine.moves[state] != DEAD).tolist()
                ends = [byte for byte in moves if byte in b" []"]
                few = ends and len(text) > 40 and rng.random() < 0.7
                if not moves:
                    break
                byte = rng.choice(ends if few else moves)
                text.append(byte)
                state = machine.moves[state, byte]
            parsed = options.parse(text.decode(), example.key)
            assert parsed.malformed == 0, text
            for slot, values in parsed.slot_values.items():
                assert slot not in known or {*values} <= known[slot], text


@pytest.mark.parametrize("options", [D3STOptions(), T5DSTOptions(), JSONOptions()])
def test_targets_are_in_the_language(options, tmp_path):
    minisgd.write(tmp_path / "d", train_dialogues=6, dev_dialogues=2, test_dialogues=2)
    schema = sgd.read_schema_of(tmp_path / "d", "train")
    found = {}
    for dialogue in sgd.read_dialogues(tmp_path / "d", "train"):
        for example in options.formatter(schema).dialogue(dialogue):
            service = schema.service(example.service)
            one = answer_grammar.signature(options, service, example.key)
            found.setdefault(one, set()).add(example.targets)
    machine = answer_grammar.machine(tuple(found))
    for number, texts in enumerate(found.values()):
        for text in texts:
            assert machine.accepts(text.encode(), number), text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (SDTOptions(), "format 'sdt'"),
        (D3STOptions(order="shuffled"), "order='shuffled'"),
    ],
)
def test_other_formats_are_refused(options, told):
    with pytest.raises(UserError, match=told):
        answer_grammar.signature(options, SERVICE, "{}")
