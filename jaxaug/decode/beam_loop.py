"""The loop of every beam search: one step and its two plugs.

Shapes: `k` beams a row, in `groups` groups of k / groups neighbours (one, except in
diverse beam search); `m` candidates a step. Beams and candidates are sorted, the best
first; results are sorted ascending, as the contract of T5X wants.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped
from t5x.decoding import (
    DecodingState,
    add_beam_dim,
    cache_gather_beams,
    cache_map,
    flatten_beam_dim,
    unflatten_beam_dim,
)

from jaxaug.decode import contract, keys
from jaxaug.decode.beam_state import (
    Beams,
    BeamState,
    Continuations,
    Pool,
    Proposal,
    Propose,
    take,
    unfinished_first,
)
from jaxaug.decode.candidates import IMPOSSIBLE, Candidates, Select
from jaxaug.decode.contract import NEG_INF
from jaxaug.decode.sample import TokensToLogits


@dataclasses.dataclass(frozen=True)
class Search:
    """The constants of one search; columns of tokens count from the row's start.

    Attributes:
        forced: [batch, length + 1] token to force at a column, 0 where it is free.
        start: [batch] number of prompt tokens that the cache holds.
        prompt: [batch] number of prompt tokens.
        limit: [batch] largest number of tokens, the prompt counted.
        prefilled: whether the cache has an index for each row.
        source: [batch, source_length] without EOS.
        row_keys: [batch] keys.
    """

    tokens_to_logits: TokensToLogits
    propose: Propose
    select: Select | None
    forced: Int[Array, "batch length_1"]
    start: Int[Array, " batch"]
    prompt: Int[Array, " batch"]
    limit: Int[Array, " batch"]
    prefilled: bool
    source: Int[Array, "batch source_length"]
    row_keys: Shaped[Array, "batch ..."]
    eos_id: int
    beams: int
    groups: int
    alpha: float
    cache_offset: int

    def first(self, cache: Any) -> BeamState:
        """State before the first step: one live beam in every group."""
        batch, columns = self.forced.shape
        shape = (batch, self.beams)
        log_probs = jnp.broadcast_to(self._only_first(self.beams), shape)
        empty = jnp.zeros((*shape, columns), jnp.int32)
        nothing = jnp.full(shape, NEG_INF, jnp.float32)
        return BeamState(
            index=jnp.zeros((), jnp.int32),
            live=Beams(
                tokens=empty.at[:, :, 0].set(self.forced[:, :1]),
                scores=log_probs,
                log_probs=log_probs,
                lengths=jnp.zeros(shape, jnp.int32),
                finished=jnp.zeros(shape, jnp.bool_),
            ),
            pool=None if self.select else Pool(empty, nothing, nothing),
            done=self.start >= self.limit,
            cache=cache_map(
                functools.partial(
                    add_beam_dim, beam_size=self.beams, offset=self.cache_offset
                ),
                cache,
                apply_to_index=self.prefilled,
            ),
        )

    def unfinished(self, state: BeamState) -> Bool[Array, ""]:
        return ~jnp.all(state.done)

    def step(self, state: BeamState) -> BeamState:
        """Extends every beam by one token and keeps those that live on."""
        live = state.live
        logits, whole, cache = self._extend(state)
        proposal = self.propose(self._continuations(live, logits))
        candidates, parents = self._candidates(live, proposal, state.index)
        if state.pool is None:
            pool = None
            chosen = self._choose(candidates, parents, state.index)
        else:
            pool, chosen = self._finish(candidates, state.pool)
        # A row that is done stays as it is, however long the others take.
        live, pool = jax.tree.map(
            lambda old, new: jnp.where(
                state.done.reshape(-1, *[1] * (old.ndim - 1)), old, new
            ),
            (live, state.pool),
            (take(candidates, chosen), pool),
        )
        live, pool = self._mark_broken(live, pool, ~whole & ~state.done, state.index)
        full = self.start + state.index + 1 >= self.limit
        return BeamState(
            index=state.index + 1,
            live=live,
            pool=pool,
            done=state.done | ~whole | full | self._settled(live, pool),
            cache=cache_gather_beams(
                cache,
                take(parents, chosen),
                full.shape[0],
                self.beams,
                self.beams,
                offset=self.cache_offset,
            ),
        )

    def _extend(
        self, state: BeamState
    ) -> tuple[Float[Array, "batch k vocab"], Bool[Array, " batch"], Any]:
        """Float32 logits, whether they are numbers, and the cache after the step."""
        batch = state.done.shape[0]
        tokens = flatten_beam_dim(state.live.tokens)
        flatten = functools.partial(flatten_beam_dim, offset=self.cache_offset)
        unflatten = functools.partial(
            unflatten_beam_dim,
            batch_size=batch,
            beam_size=self.beams,
            offset=self.cache_offset,
        )
        logits, cache = self.tokens_to_logits(
            DecodingState(
                cur_index=state.index,
                sequences=tokens,
                cur_token=lax.dynamic_slice_in_dim(tokens, state.index, 1, axis=1),
                cache=cache_map(flatten, state.cache, self.prefilled),
            )
        )
        logits = unflatten_beam_dim(logits.astype(jnp.float32), batch, self.beams)
        whole = jnp.all(contract.all_finite(logits) | state.live.finished, axis=1)
        whole |= self._forced(state.index)[:, 0] != 0
        cache = cache_map(unflatten, cache, self.prefilled)
        return logits, whole, contract.match_container(cache, state.cache)

    def _continuations(
        self, live: Beams, logits: Float[Array, "batch k vocab"]
    ) -> Continuations:
        """What could follow; with `select` an ended beam goes on with padding, for free."""
        peaks = jnp.max(logits, axis=-1)
        log_sums = jnp.log(jnp.sum(jnp.exp(logits - peaks[..., None]), axis=-1))
        if self.select is not None:
            is_padding = jnp.arange(logits.shape[-1]) == 0
            padding = jnp.where(is_padding, 0.0, NEG_INF)
            logits = jnp.where(live.finished[..., None], padding, logits)
            peaks = jnp.where(live.finished, 0.0, peaks)
            log_sums = jnp.where(live.finished, 0.0, log_sums)
        return Continuations(
            logits=logits,
            peaks=peaks,
            log_sums=log_sums,
            scores=live.scores,
            log_probs=live.log_probs,
            sequences=self._generated(live.tokens),
            lengths=live.lengths,
            eos_id=self.eos_id,
        )

    def _mark_broken(
        self,
        live: Beams,
        pool: Pool | None,
        broken: Bool[Array, " batch"],
        index: Int[Array, ""],
    ) -> tuple[Beams, Pool | None]:
        """Puts `BROKEN` and NaN into rows whose logits are no numbers.

        Their pool is emptied, so that they return their live beams.
        """
        column = jnp.arange(live.tokens.shape[-1])
        here = broken[:, None, None] & (column == index + 1)
        live = live.replace(
            tokens=jnp.where(here, contract.BROKEN, live.tokens),
            scores=jnp.where(broken[:, None], 0.0, live.scores),
            log_probs=jnp.where(broken[:, None], jnp.nan, live.log_probs),
        )
        if pool is not None:
            none = jnp.where(broken[:, None], NEG_INF, pool.scores)
            pool = pool.replace(scores=none)
        return live, pool

    def _forced(self, index: Int[Array, ""]) -> Int[Array, "batch 1"]:
        """The tokens that step `index` has to write; 0 where it is free."""
        return lax.dynamic_slice_in_dim(self.forced, index + 1, 1, axis=1)

    def _only_first(self, n: int) -> Float[Array, " n"]:
        """0 for the first of the n / groups slots of each group, -1e7 for the others."""
        return jnp.where(jnp.arange(n) % (n // self.groups) == 0, 0.0, NEG_INF)

    def _candidates(
        self, live: Beams, proposal: Proposal, index: Int[Array, ""]
    ) -> tuple[Beams, Int[Array, "batch m"]]:
        """The candidates of a step, and the beam that each continues.

        Inside the prompt all but the first candidate of a group are fillers: beams with
        the same prompt would be copies of each other.
        """
        m = proposal.tokens.shape[1]
        forced = self._forced(index)
        free = forced == 0
        first_of_group = jnp.arange(m) // (m // self.groups)
        first_of_group *= self.beams // self.groups
        parents = jnp.where(free, proposal.parents, first_of_group)
        before = take(live, parents)
        was_finished = before.finished & free
        tokens = jnp.where(free, proposal.tokens, forced).astype(jnp.int32)
        in_prompt = (self.start + index < self.prompt)[:, None]
        candidates = Beams(
            tokens=lax.dynamic_update_slice(
                before.tokens, tokens[..., None], (0, 0, index + 1)
            ),
            scores=jnp.where(free, proposal.scores, self._only_first(m)),
            log_probs=jnp.where(free, proposal.log_probs, self._only_first(m)),
            lengths=before.lengths + (~was_finished & ~in_prompt),
            finished=was_finished | (free & (tokens == self.eos_id)),
        )
        return candidates, parents

    def _choose(
        self,
        candidates: Beams,
        parents: Int[Array, "batch m"],
        index: Int[Array, ""],
    ) -> Int[Array, "batch k"]:
        """What `select` chooses, in order of probability."""
        assert self.select is not None
        shown = Candidates(
            sequences=self._generated(candidates.tokens),
            lengths=candidates.lengths,
            log_probs=candidates.log_probs,
            parents=parents,
            finished=candidates.finished,
            source=self.source,
            source_lengths=jnp.sum(self.source != 0, axis=1),
            step=index,
            rng=keys.fold_rows(
                self.row_keys, jnp.broadcast_to(index, self.start.shape)
            ),
            k=self.beams,
        )
        chosen = self.select(shown)
        batch, m = parents.shape
        if chosen.shape != (batch, self.beams):
            raise ValueError(
                f"{self.select} chose an array of shape {chosen.shape}; it must name "
                f"k = {self.beams} candidates in each of {batch} rows"
            )
        # Within the prompt only the first candidate is possible, so it is kept.
        column = jnp.arange(m)
        is_chosen = jnp.any(chosen[..., None] == column, axis=1)
        rank = jnp.where(shown.possible, jnp.where(is_chosen, 0, 1), 2)
        best = jnp.argsort(rank, axis=1, stable=True)[:, : self.beams]
        return jnp.sort(best, axis=1).astype(jnp.int32)

    def _finish(
        self, candidates: Beams, pool: Pool
    ) -> tuple[Pool, Int[Array, "batch k"]]:
        """Moves finished candidates into the pool; the best of the others live on."""
        penalty = self._penalty(candidates.lengths)
        finished = candidates.finished & (candidates.scores > IMPOSSIBLE)
        new = Pool(
            tokens=candidates.tokens,
            scores=jnp.where(finished, candidates.scores / penalty, NEG_INF),
            results=jnp.where(finished, candidates.log_probs / penalty, NEG_INF),
        )
        both = jax.tree.map(
            lambda old, new: jnp.concatenate(
                [self._split(old), self._split(new)], axis=1
            ),
            pool,
            new,
        )
        width = self.beams // self.groups
        _, best = lax.top_k(both.scores, width)
        pool = jax.tree.map(self._join, take(both, best))

        chosen = self._join(unfinished_first(self._split(candidates.finished), width))
        per_group = candidates.finished.shape[1] // self.groups
        return pool, chosen + jnp.arange(self.beams) // width * per_group

    def _settled(self, live: Beams, pool: Pool | None) -> Bool[Array, " batch"]:
        """Whether further steps cannot change the result of a row."""
        possible = live.scores > IMPOSSIBLE
        if pool is None:
            return jnp.all(live.finished | ~possible, axis=1)
        # The most that a live beam can still reach: scores only fall, and the penalty
        # divides by the most at the full length.
        width = self.beams // self.groups
        reachable = live.scores / brevity_penalty(self.alpha, self.limit[:, None])
        worst = jnp.min(self._split(pool.scores), axis=1)
        beaten = worst.reshape(-1, self.groups) > reachable[:, ::width]
        return jnp.all(beaten | ~possible[:, ::width], axis=1)

    def _split(self, x: Array) -> Array:
        """[batch, n, ...] -> [batch * groups, n / groups, ...]"""
        return x.reshape(x.shape[0] * self.groups, -1, *x.shape[2:])

    def _join(self, x: Array) -> Array:
        """[batch * groups, n / groups, ...] -> [batch, n, ...]"""
        return x.reshape(self.start.shape[0], -1, *x.shape[2:])

    def _penalty(self, lengths: Int[Array, "batch n"]) -> Float[Array, "batch n"]:
        return brevity_penalty(self.alpha, self.prompt[:, None] + lengths)

    def _generated(
        self, tokens: Int[Array, "batch n length_1"]
    ) -> Int[Array, "batch n length"]:
        """The tokens after the prompt, moved to the front."""
        length = tokens.shape[2] - 1
        column = (self.prompt - self.start)[:, None] + 1 + jnp.arange(length)
        return jnp.take_along_axis(
            tokens, column[:, None], axis=2, mode="fill", fill_value=0
        )

    def result(
        self, state: BeamState
    ) -> tuple[Int[Array, "batch k length_1"], Float[Array, "batch k"]]:
        """Tokens and scores, sorted ascending."""
        live, pool = state.live, state.pool
        if pool is None:
            possible = live.scores > IMPOSSIBLE
            tokens = jnp.where(possible[..., None], live.tokens, 0)
            scores = live.log_probs / self._penalty(live.lengths)
            scores = jnp.where(possible, scores, NEG_INF)
        else:
            any_finished = self._split(pool.scores) > IMPOSSIBLE
            any_finished = jnp.any(any_finished, axis=1, keepdims=True)
            width = self.beams // self.groups
            any_finished = self._join(jnp.repeat(any_finished, width, axis=1))
            tokens = jnp.where(any_finished[..., None], pool.tokens, live.tokens)
            scores = jnp.where(any_finished, pool.results, live.log_probs)
        order = jnp.flip(jnp.argsort(-scores, axis=1, stable=True), axis=1)
        return take(tokens, order), take(scores, order)


def brevity_penalty(alpha: float, length: Array) -> Array:
    """((5 + length) / 6) ** alpha (Wu et al., 2016, eq. 14)."""
    return jnp.power((5.0 + length) / 6.0, alpha)
