"""Prompts with which a language model paraphrases one line.

Published models need examples in the prompt. `plain` has none: it is the prompt that
adapters were trained with. An adapter whose task is the name of a prompt has that one.

A prompt is a text that contains `{text}` once. The parts before and after it are the
same for every line. The model writes the paraphrase after the last part.
"""

from typing import NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text
from jaxaug.core.suggestion import nearest
from jaxaug.data.rewordings import Source

PLACE = "{text}"
CHAT = "chat:"
"""Prefix of a prompt name: the prompt goes into the chat template of the model."""
_FIX = f"Write the examples, then a line with {PLACE} for the input."

_SCHEMA = (
    ("date on which the appointment takes place", "day of the meeting with the doctor"),
    ("whether the flight is direct or not", "if the plane goes there without a stop"),
    ("find a plumber in a given city", "search for someone in town who repairs pipes"),
)
_PERSONA = (
    ("i have two dogs and a cat.", "three pets live with me, a cat and two dogs."),
    ("my favorite food is pizza.", "i like pizza more than any other meal."),
    ("i work as a nurse in a hospital.", "i take care of patients in a clinic."),
)

_SENTENCE = (
    (
        "I want to cancel my trip to Spain.",
        "I would like to call off my trip to Spain.",
    ),
    ("How much does it cost to rent a boat?", "What is the price of renting a boat?"),
    ("If it snows, we stay at home.", "We stay at home if it snows."),
    ("Please answer my question.", "Could you please reply to my question?"),
    ("The film was not very good.", "The movie wasn't that good."),
)


class Prompt(NamedTuple):
    """A prompt around an input; the white space before the input is separate."""

    before: str
    space: str
    behind: str


class Chat(NamedTuple):
    """A prompt that becomes the message of a user in a model's chat template."""

    message: Prompt


def _few_shot(task: str, label: str, examples: tuple[tuple[str, str], ...]) -> str:
    shots = [f"{label}: {a}\nParaphrase: {b}\n\n" for a, b in examples]
    return f"{task}\n\n{''.join(shots)}{label}: {PLACE}\nParaphrase:"


PLAIN = "plain"
PROMPTS = {
    PLAIN: f"{PLACE}\n->",
    "rewording_paraphraser": Source("sentence", PLACE).prompt(3),
    "schema": _few_shot("Say the same thing in other words.", "Description", _SCHEMA),
    "ask": "Say the same thing in other words. Reply with the new wording alone.\n\n"
    f"{PLACE}",
    "sentence": _few_shot(
        "Say exactly the same in other words.", "Sentence", _SENTENCE
    ),
    "persona": _few_shot("Say the same thing in other words.", "Sentence", _PERSONA),
}


def find(name: PathLike) -> Prompt | Chat:
    """Returns the prompt with a name, or in a file; `chat:` before it makes a chat.

    Raises:
        UserError: there is neither such a name nor such a file, or the file does not
            contain `{text}` exactly once.
    """
    if str(name).startswith(CHAT):
        return Chat(_found(str(name).removeprefix(CHAT)))
    return _found(name)


def _found(name: PathLike) -> Prompt:
    known = PROMPTS.get(str(name))
    text = known or read_text(
        name,
        f"Use one of {', '.join(PROMPTS)}, or name a file.{nearest(name, PROMPTS)} "
        f"{_FIX}",
    )
    return parse(text, str(name))


def parse(text: str, source: str) -> Prompt:
    """Returns the parts of a prompt; refuses a text without exactly one `{text}`.

    Raises:
        UserError: the text does not contain `{text}` exactly once.
    """
    if text.count(PLACE) != 1:
        raise UserError(
            f"prompt {source} contains {PLACE} {text.count(PLACE)} times, but must "
            f"contain it once. {_FIX}"
        )
    before, behind = text.split(PLACE)
    stem = before.rstrip(" ")
    return Prompt(stem, before[len(stem) :], behind.rstrip())
