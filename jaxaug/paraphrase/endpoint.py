"""Paraphrases by a model behind an endpoint, with a cache of its replies.

A text is requested again, with a prompt that names the known paraphrases. This ends
when the text has enough paraphrases or its requests are used up.
"""

import threading
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.shards import Json
from jaxaug.core.text import clean, is_copy, spaced
from jaxaug.models.endpoint import asking, replies, usage
from jaxaug.models.endpoint.asking import Request
from jaxaug.models.endpoint.usage import Usage
from jaxaug.paraphrase import literals, templates
from jaxaug.paraphrase.endpoint_grid import Setting
from jaxaug.paraphrase.literals import Piece

LONGEST = 8_000
"""Maximum characters of a text."""
_AGAIN = 2  # Requests of a text beyond its minimum.
_FEW = 5  # Texts without a paraphrase after which a run without any paraphrase ends.
_ROOM = 256  # Tokens of a reply around its paraphrases.


class Writer:
    """Paraphrases texts with one setting.

    The paraphrases of a text depend on the text, its context, the setting, the seed,
    and the replies of the server, but not on other texts.
    """

    def __init__(self, setting: Setting, seed: int):
        """Takes a setting, and the seed of the server's sampling."""
        self.setting, self._seed = setting, seed
        self._template = templates.find(setting.prompt)
        self._lock = threading.Lock()
        self._written = self._empty = 0
        self.has_asked = False

    def __call__(
        self, items: Sequence[Json], done: Callable[[], Any] = lambda: None
    ) -> list[list[str]]:
        """Returns up to `num` paraphrases of each text, without copies of it.

        Args:
            items: texts, or (text, context); see `jaxaug.augment.descriptions`. In a
                context, `known` are existing paraphrases.

        Raises:
            UserError: a text is too long, or the replies for the first texts hold no
                paraphrase; see also `Client.complete`. Earlier replies are kept.
        """
        pairs = [_pair(item) for item in items]
        self._check(pairs)
        self.has_asked = True
        return asking.together(
            self.setting.server, pairs, lambda pair: self._paraphrases(*pair), done
        )

    def expected(self, items: Sequence[Json]) -> Usage:
        """Returns the expected usage of these texts, if every request succeeds."""
        prompts, kept = [], 0
        for text, context in map(_pair, items):
            for piece in literals.framed(text).pieces:
                found: dict[str, str] = {}
                for number in range(self._most()):
                    if len(found) >= self.setting.num:
                        break
                    request = self._request(piece, context, number, found.values())
                    reply = asking.kept(self.setting.server, request)
                    if reply is None:
                        lacking = self.setting.num - len(found)
                        size = self.setting.options.per_request
                        for start in range(0, lacking, size):
                            count = min(size, lacking - start)
                            prompts.append((request.as_json, count, piece.masked))
                        break
                    kept += 1
                    self._add(found, piece, reply)
        return usage.estimate(prompts, kept)

    def spent(self) -> str:
        """Returns one line with the requests, tokens, and cost so far."""
        return asking.spent(self.setting.server)

    def plan(self, items: Sequence[Json]) -> list[str]:
        """Returns lines with the expected requests, tokens, and cost; sends nothing."""
        return asking.plan(self.setting.server, self.expected(items))

    def _check(self, pairs: Sequence[tuple[str, Json]]) -> None:
        for text in (clean(text, False) for text, _ in pairs):
            if len(text) > LONGEST:
                raise UserError(
                    f"a text has {len(text):,} characters; {LONGEST:,} is the maximum "
                    f"for a request: {text[:60]!r} ... Divide it into sentences."
                )

    def _most(self) -> int:
        """Returns the maximum number of requests of a text."""
        setting = self.setting
        return -(-setting.num // setting.options.per_request) + _AGAIN

    def _paraphrases(self, text: str, context: Json) -> list[str]:
        framed = literals.framed(text)
        found = [self._of_piece(piece, context) for piece in framed.pieces]
        if framed.pieces:
            self._note(any(found))
        return [one.text for one in framed.written(found)][: self.setting.num]

    def _of_piece(self, piece: Piece, context: Json) -> list[str]:
        """Returns outputs for `piece.masked`, all with its masks."""
        found: dict[str, str] = {}
        for number in range(self._most()):
            if len(found) >= self.setting.num:
                break
            request = self._request(piece, context, number, found.values())
            # A reply without a paraphrase is not cached, so the next run asks again.
            reply = asking.reply(
                self.setting.server,
                request,
                lambda text: bool(replies.paraphrases(text)),
            )
            self._add(found, piece, reply)
        return list(found.values())

    def _add(self, found: dict[str, str], piece: Piece, reply: str) -> None:
        for one in replies.paraphrases(reply):
            # Some models know the literal from the context.
            one = piece.hide(one)
            if not is_copy(one, piece.masked) and piece.restored(one) is not None:
                found.setdefault(spaced(one).casefold(), one)

    def _note(self, is_any: bool) -> None:
        with self._lock:
            self._written += is_any
            self._empty += not is_any
            if not self._written and self._empty >= _FEW:
                raise nothing(self.setting)

    def _request(
        self, piece: Piece, context: Json, number: int, written: Collection[str]
    ) -> Request:
        options = self.setting.options
        text = piece.masked
        count = min(self.setting.num - len(written), options.per_request)
        known = [*map(piece.hide, context.get("known", ())), *written]
        if "keep" in context or piece.masks:
            kept = [one for one in context.get("keep", ()) if one in text]
            context = {**context, "keep": [*piece.masks, *kept]}
        as_json, as_list = (
            templates.filled(self._template, text, count, context, known, form)
            for form in (True, False)
        )
        room = _ROOM + 2 * count * (usage.tokens(text) + 8)
        seed = zlib.crc32(f"{self._seed} {number} {text}".encode()) & 0x7FFFFFFF
        return Request(
            as_json, as_list, count, seed,
            {"max_tokens": room} | options.parameters, options.json,
        )  # fmt: skip


def nothing(setting: Setting) -> UserError:
    """Returns the error for replies that hold no paraphrase."""
    return UserError(
        f"{setting.server.name} at {setting.server.url}: its replies hold no "
        "paraphrase that differs from the text. They must be a JSON object or a "
        "numbered list. Take a model that follows instructions, another --prompt, or "
        "more room (--option max_tokens=4000)."
    )


def _pair(item: Json) -> tuple[str, Json]:
    text, context = (item, {}) if isinstance(item, str) else item
    return text, context
