"""Options of `jaxaug levels`, and the settings of generators that they stand for."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.curriculum import quotas
from jaxaug.curriculum import scorers as measures
from jaxaug.curriculum.arguments import Levelling
from jaxaug.curriculum.difficulty import BETAS, FLOORS
from jaxaug.models.endpoint.server import is_endpoint
from jaxaug.models.named import catalogue
from jaxaug.paraphrase import endpoint_grid, generation

Setting = generation.Setting | endpoint_grid.Setting
AUTO, NONE = "auto", "none"
BLEURTS, IMPLICATION = ("bleurt-base-128", "bleurt-20"), "roberta-mi"
"""BLEURT models in order of preference, and the implication model of the paper.

The first BLEURT has the scale of the paper's scores.
"""


class Options(Levelling):
    """Options of levels, with the quotas and the server.

    Attributes:
        quota: sampler -> number of its paraphrases to keep per text; see `quotas`.
        server: of a model behind an endpoint: fields of
            `jaxaug.paraphrase.endpoint_grid.Block`. Such a model has the one sampler
            `sampling`, and none of the options of samplers.
    """

    quota: Mapping[str, int] = dataclasses.field(
        default_factory=lambda: dict(quotas.PAPER)
    )
    server: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        quotas.check(self.quota)
        others = [n for n, number in self.quota.items() if number and n != "sampling"]
        if is_endpoint(self.model) and others:
            raise UserError(
                f"--quota {others[0]}={self.quota[others[0]]}: {self.model} samples on "
                "its server, which gives no probabilities of tokens. Write --quota "
                f"sampling={sum(self.quota.values())}."
            )

    @property
    def settings(self) -> dict[str, Setting]:
        """Sampler with a positive quota -> its setting, in quota order.

        Raises:
            UserError: an option of a sampler or of the requests is wrong.
        """
        numbers = {n: q * self.oversample for n, q in self.quota.items() if q}
        if is_endpoint(self.model):
            common = {"model": self.model, "prompt": self.prompt, **self.server}
            return {
                sampler: endpoint_grid.Setting.of(common | {"num": number}, "levels")
                for sampler, number in numbers.items()
            }
        removed = {"k": self.bottom_k, "n_steps": self.bottom_steps}
        blocks = {
            "bottom_k": removed | {"then_k": self.top_k, "then_p": self.top_p},
            "top_k_top_p": {"k": self.top_k, "p": self.top_p},
            "sampling": {},
        }
        found = generation.grid(
            {
                "model": self.model,
                "sampler": sampler,
                "num": number,
                "options": blocks[sampler],
                "prompt": self.prompt,
                "max_length": self.max_length,
                "precision": self.precision,
            }
            for sampler, number in numbers.items()
        )
        return {setting.sampler: setting for setting in found}

    @property
    def asked(self) -> endpoint_grid.Setting | None:
        """The setting of a model behind an endpoint, which has only one."""
        for setting in self.settings.values():
            if isinstance(setting, endpoint_grid.Setting):
                return setting
        return None


def resolved(options: Options) -> Options:
    """Replaces `auto` and a missing beta with their values on this machine.

    Raises:
        UserError: beta is outside the range of the similarity, or a model is not on
            this machine.
    """
    similarity, implication = options.similarity, options.implication
    if similarity == AUTO:
        here = [name for name in BLEURTS if catalogue.find(name).on_disk]
        similarity = here[0] if here else "minilm"
    if implication == AUTO:
        implication = IMPLICATION if catalogue.find(IMPLICATION).on_disk else NONE
    scale, beta = measures.scale(similarity), options.beta
    if beta is None:
        betas, other = (FLOORS, None) if implication == NONE else (BETAS, scale.beta)
        beta = betas.get(similarity, other)
    elif not scale.least <= beta <= scale.most:
        raise UserError(
            f"--beta is {beta}, but the similarity {similarity} is {scale.name}, from "
            f"{scale.least} to {scale.most}. Give a number in between, or none for the "
            f"default, {BETAS.get(similarity, scale.beta)} with a model of implication."
        )
    return dataclasses.replace(
        options, similarity=similarity, implication=implication, beta=beta
    )
