"""RbM: a generator that is rewarded by a learned evaluator (Li et al., 2018).

A generator that was trained on pairs is fine-tuned by policy gradient (REINFORCE;
Williams, 1992). Texts are sampled from it. Their reward is the probability of being a
paraphrase of the source, from the evaluator of `jaxaug_papers.dips.matching`. The
baseline is the mean reward of the other texts of the same source.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from etils import epath
from jax import lax
from jaxaug_base.clu_names import metrics as clu_metrics
from jaxaug_base.files import absolute
from jaxtyping import Array, Float, Int
from t5x.feed.vocabularies import check_rows

from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.models.layers import MASKED
from jaxaug.models.text import checkpoint
from jaxaug_papers.dips.free_running import FreeRunningModel
from jaxaug_papers.dips.matching import MatchingModel


class Evaluator(NamedTuple):
    """A trained evaluator of texts.

    Attributes:
        vocabulary: path of the vocabulary; empty skips the comparison of vocabularies.
    """

    model: MatchingModel
    params: Mapping[str, Any]
    vocabulary: str = ""


def evaluator(folder: PathLike) -> Evaluator:
    """Returns the evaluator of a run of `configs/paraphrase_evaluator.gin`.

    Raises:
        UserError: the run does not exist, or it trained another kind of model.
    """
    run = checkpoint.load(epath.Path(folder))
    check_rows(run.model, folder)
    if not isinstance(run.model, MatchingModel):
        raise UserError(
            f"{folder}: its MODEL is a {type(run.model).__name__}, no evaluator. Name "
            "a run of configs/paraphrase_evaluator.gin."
        )
    return Evaluator(run.model, run.params, run.model.input_vocabulary.path)


def generator(folder: PathLike) -> str:
    """Returns a run's best or newest checkpoint, for `RestoreCheckpointConfig.path`.

    Raises:
        UserError: the run has no checkpoint.
    """
    return str(checkpoint.chosen(absolute(folder)))


class RewardedModel(FreeRunningModel):
    """Trains an encoder-decoder on rewards and, with a smaller weight, on the targets.

    Evaluation, scores, and predictions are inherited from the base class. The training
    metrics also have `reward`, the mean over the sampled texts.
    """

    def __init__(
        self,
        *args: Any,
        evaluator: Evaluator | None = None,
        samples: int = 4,
        likelihood_weight: float = 0.1,
        **kwargs: Any,
    ):
        """Creates the model; the base class takes further arguments.

        Args:
            samples: number of sampled texts per source.
            likelihood_weight: weight of the loss of the base class, relative to the
                loss of the policy, which is a mean over texts.

        Raises:
            UserError: a setting is out of range, or the evaluator has another
                vocabulary.
        """
        super().__init__(*args, **kwargs)
        if samples < 2:
            raise UserError(
                f"RewardedModel.samples = {samples}: give 2 or more, since the "
                "baseline of a text is the mean of the others."
            )
        if likelihood_weight < 0:
            raise UserError(
                f"RewardedModel.likelihood_weight = {likelihood_weight}: give 0 or "
                "more."
            )
        self._evaluator, self._samples = evaluator, samples
        self._likelihood_weight = likelihood_weight
        if evaluator is not None and evaluator.vocabulary:
            own = self.input_vocabulary.file
            if file_digest(own) != file_digest(evaluator.vocabulary):
                raise UserError(
                    "the evaluator was trained with the vocabulary "
                    f"{evaluator.vocabulary}, the generator has {own}, which is "
                    "another one. Train both on the same TASK with the same "
                    "VOCABULARY_SIZE."
                )

    def loss_fn(
        self, params: Any, batch: Mapping[str, Array], dropout_rng: Array | None
    ) -> Any:
        """Returns loss and metrics; evaluation uses the base class."""
        if dropout_rng is None:
            return super().loss_fn(params, batch, None)
        rng, draw_rng = jax.random.split(dropout_rng)
        likelihood, metrics = super().loss_fn(params, batch, rng)
        sources = jnp.repeat(batch["encoder_input_tokens"], self._samples, axis=0)
        length = batch["decoder_target_tokens"].shape[1]
        texts = lax.stop_gradient(self.draw(params, sources, length, draw_rng))
        reward = self.reward(sources, texts)
        policy = -jnp.mean(
            self._advantage(reward) * self._log_prob(params, sources, texts)
        )
        metrics = {
            **metrics,
            "reward": clu_metrics.Average(
                total=jnp.sum(reward), count=jnp.asarray(reward.size)
            ),
        }
        return policy + self._likelihood_weight * likelihood, metrics

    def reward(
        self, sources: Int[Array, "rows source"], texts: Int[Array, "rows length"]
    ) -> Float[Array, " rows"]:
        """Returns the probability that each text paraphrases its source.

        Raises:
            UserError: the model has no evaluator.
        """
        if self._evaluator is None:
            raise UserError(
                "RewardedModel.evaluator is None: training needs one, such as "
                "@rewarded.evaluator() with a folder."
            )
        model, params, _ = self._evaluator
        return jax.nn.sigmoid(model.match(params, sources, texts))

    def _advantage(self, reward: Float[Array, " rows"]) -> Float[Array, " rows"]:
        """Returns the rewards minus the mean of the other texts of the same source."""
        each = reward.reshape(-1, self._samples)
        others = (jnp.sum(each, axis=1, keepdims=True) - each) / (self._samples - 1)
        return lax.stop_gradient((each - others).reshape(-1))

    def _log_prob(
        self,
        params: Any,
        sources: Int[Array, "rows source"],
        texts: Int[Array, "rows length"],
    ) -> Float[Array, " rows"]:
        """Returns the log probability of each text, including its EOS."""
        told = {
            "encoder_input_tokens": sources,
            "decoder_input_tokens": jnp.pad(texts, ((0, 0), (1, 0)))[:, :-1],
            "decoder_target_tokens": texts,
        }
        logits = self._compute_logits(params, told, None).at[..., 0].set(MASKED)
        chosen = jnp.take_along_axis(
            jax.nn.log_softmax(logits), texts[..., None], axis=-1
        )[..., 0]
        return jnp.sum(chosen * (texts > 0), axis=1)

    def draw(
        self, params: Any, sources: Int[Array, "rows source"], length: int, rng: Array
    ) -> Int[Array, "rows length"]:
        """Samples a text per source, without dropout; 0 only after the end."""
        eos_id = self.output_vocabulary.eos_id

        def choose(index: Array, logits: Array, ended: Array) -> Any:
            logits = logits.at[:, 0].set(MASKED)
            drawn = jax.random.categorical(jax.random.fold_in(rng, index), logits)
            token = jnp.where(ended, 0, drawn).astype(jnp.int32)
            return token, ended | (token == eos_id), token

        ended = jnp.zeros((sources.shape[0],), jnp.bool_)
        return self._word_by_word(params, sources, length, choose, ended)
