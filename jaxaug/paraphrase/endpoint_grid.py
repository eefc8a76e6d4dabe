"""Settings of models behind an endpoint, as blocks of a grid."""

import dataclasses
import itertools
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from etils import epath

from jaxaug.core import typed
from jaxaug.core.digests import code_digest
from jaxaug.core.errors import UserError
from jaxaug.core.ranges import Range
from jaxaug.core.shards import Json
from jaxaug.core.suggestion import check_keys
from jaxaug.models.endpoint import replies, server
from jaxaug.models.endpoint.server import Server
from jaxaug.paraphrase import templates

DEFAULT_PROMPT = "plain"


@dataclass(frozen=True)
class Options:
    """Options of the requests.

    Attributes:
        temperature: temperature of the server's sampling; None is the server's default.
        max_tokens: maximum tokens of a reply; None fits the paraphrases. Models that
            think before they answer need more.
    """

    temperature: Annotated[float, Range(0)] | None = None
    top_p: Annotated[float, Range(0, 1, above=True)] | None = None
    max_tokens: Annotated[int, Range(1)] | None = None
    per_request: Annotated[int, Range(1)] = 10
    json: bool = True
    concurrent: int = 8
    retries: int = 5
    timeout: float = 300.0

    @property
    def parameters(self) -> dict[str, Any]:
        """Fields of a request; the server decides unset ones."""
        names = ("temperature", "top_p", "max_tokens")
        return {n: v for n in names if (v := getattr(self, n)) is not None}


@dataclass(frozen=True)
class Setting:
    """`num` outputs of each text by a model behind an endpoint."""

    server: Server
    num: int
    prompt: str = DEFAULT_PROMPT
    options: Options = Options()

    @classmethod
    def of(cls, block: Mapping[str, Any], where: str = "grid") -> "Setting":
        """Returns the checked setting of a mapping; see `Block` for its fields.

        Raises:
            UserError: a field is unknown, missing, or wrong.
        """
        check_block(block, typing.get_type_hints(Block), ("model", "num"), where)
        typed.check(block, Block, where)
        chosen = dict(block.get("options", {}))
        check_keys(chosen, typing.get_type_hints(Options), where)
        typed.check(chosen, Options, where)
        options = Options(**chosen)
        prices = block.get("prices")
        place = Server(
            block["model"].removeprefix(server.PREFIX),
            server.address(block.get("endpoint")),
            block.get("key_variable") or server.KEY_VARIABLE,
            block.get("max_requests"),
            None if prices is None else (float(prices[0]), float(prices[1])),
            options.concurrent,
            options.retries,
            options.timeout,
        )
        prompt = block.get("prompt") or DEFAULT_PROMPT
        templates.find(prompt)
        return cls(place, block["num"], prompt, options)

    @property
    def label(self) -> str:
        """Model, address, options that differ from the default, and number."""
        fields = dataclasses.asdict(self.options).items()
        parts = [self.server.name, self.server.url]
        parts += [f"prompt={epath.Path(self.prompt).name}"]
        parts += [f"{k}={v}" for k, v in fields if v != getattr(Options(), k)]
        return " ".join([*parts, f"num={self.num}"])

    def key(self) -> Json:
        """Returns JSON of everything that determines outputs, except text and seed."""
        return {
            "model": self.server.name,
            "endpoint": self.server.url,
            "prompt": templates.find(self.prompt),
            "parameters": self.options.parameters,
            "num": self.num,
            "per_request": self.options.per_request,
            "json": self.options.json,
            "code": code_digest(replies, templates, "jaxaug.paraphrase.endpoint"),
        }


class Block(typing.TypedDict, total=False):
    """Fields of a block of a grid, and of the command line; see `Setting.of`."""

    model: str
    endpoint: str
    num: Annotated[int, Range(1)]
    prompt: str | None
    key_variable: str | None
    max_requests: int | None
    prices: tuple[float, float] | None
    options: Mapping[str, Any]


def divided(
    grid: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[Setting]]:
    """Returns the blocks of a grid for local models, and the settings of the others.

    A list in a block stands for each of its values in turn, as in
    `jaxaug.paraphrase.generation.grid`.

    Raises:
        UserError: see `Setting.of`; or a setting comes twice.
    """
    local: list[Mapping[str, Any]] = []
    settings: list[Setting] = []
    for block in grid:
        models = block.get("model") if isinstance(block, Mapping) else None
        every = models if isinstance(models, list) else [models]
        mine = [model for model in every if server.is_endpoint(model)]
        if not mine:
            local.append(block)
            continue
        if others := [model for model in every if model not in mine]:
            local.append({**block, "model": others})
        typed.check({"options": block.get("options", {})}, Block, "grid")
        default = {"prompt": "schema"}
        options = product(block.get("options", {}))
        fields = product(default | {**block, "model": mine})
        settings += [
            Setting.of({**one, "options": own}) for one in fields for own in options
        ]
    check_distinct([setting.label for setting in settings])
    return local, settings


def check_block(
    block: Mapping[str, Any], known: Iterable[str], needed: Iterable[str], where: str
) -> None:
    """Raises `UserError` if a block of a grid has unknown or lacks needed fields."""
    check_keys(block, known, where)
    for name in needed:
        if name not in block:
            raise UserError(f"{where}: {dict(block)} lacks {name!r}. Add it.")


def check_distinct(labels: Sequence[str]) -> None:
    """Raises `UserError` if two settings of a grid are equal."""
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(
                f"grid: {label!r} comes twice. Leave one out, or ask for more outputs "
                "with num."
            )


def product(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns all mappings with one value per field; lists hold several values."""
    lists = [v if isinstance(v, list) else [v] for v in fields.values()]
    return [dict(zip(fields, v, strict=True)) for v in itertools.product(*lists)]
