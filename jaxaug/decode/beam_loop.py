"""The loop of every beam search: one step with two pluggable functions.

A row has `k` beams, in `groups` groups of k / groups adjacent beams. Only diverse beam
search has more than one group. A step has `m` candidates per row, and the pool has `n`
finished hypotheses. Beams and candidates are sorted, the best first.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped
from t5x import decoding
from t5x.decoding import add_beam_dim, cache_gather_beams, cache_map

from jaxaug.decode import contract, keys, wide
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
from jaxaug.decode.candidates import Candidates, Select, chosen_mask, only_possible
from jaxaug.decode.contract import NEG_INF
from jaxaug.decode.sample import TokensToLogits


@dataclasses.dataclass(frozen=True)
class Search:
    """The constants of one search; columns of tokens count from the row's start.

    Attributes:
        tokens_to_logits: one decoder step on all batch * rows rows.
        propose: makes the candidates of a step.
        select: chooses among the candidates; None means the most probable.
        forced: [batch, length + 1] token to force at a column; 0 means free.
        start: [batch] number of prompt tokens that the cache holds.
        prompt: [batch] number of prompt tokens.
        limit: [batch] maximum number of tokens, prompt included.
        prefilled: whether the cache has an index for each row.
        source: [batch, source_length] tokens of the inputs, without EOS.
        row_keys: [batch] random key of each row.
        eos_id: token that ends a hypothesis.
        beams: k, a multiple of `rows`.
        rows: number of rows per input that `tokens_to_logits` takes at once.
        keep: n, size of the pool; with several groups it is k.
        until_full: whether a row is done when its pool is full.
        groups: number of groups.
        alpha: exponent of the length penalty.
        cache_offset: number of leading axes of the cache before the batch axis.
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
    rows: int
    keep: int
    until_full: bool
    groups: int
    alpha: float
    cache_offset: int

    def first(self, cache: Any) -> BeamState:
        """Returns the state before the first step, with one live beam in every group.

        Args:
            cache: nested arrays that lead with `batch` after `cache_offset` axes.
        """
        batch, columns = self.forced.shape
        shape = (batch, self.beams)
        log_probs = jnp.broadcast_to(self._only_first(self.beams), shape)
        empty = jnp.zeros((*shape, columns), jnp.int32)
        kept = (batch, self.keep)
        nothing = jnp.full(kept, -jnp.inf, jnp.float32)
        if self.beams == self.rows:  # Sets of rows do not see each other.
            cache = decoding.share_history(cache, self.beams)
        return BeamState(
            index=jnp.zeros((), jnp.int32),
            live=Beams(
                tokens=empty.at[:, :, 0].set(self.forced[:, :1]),
                scores=only_possible(log_probs, log_probs),
                log_probs=log_probs,
                lengths=jnp.zeros(shape, jnp.int32),
                finished=jnp.zeros(shape, jnp.bool_),
            ),
            pool=Pool(
                tokens=jnp.zeros((*kept, columns), jnp.int32),
                scores=nothing,
                results=jnp.full(kept, NEG_INF, jnp.float32),
                lengths=jnp.zeros(kept, jnp.int32),
            ),
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
        """Extends every beam by one token and selects the next beams."""
        live = state.live
        logits, whole, cache = self._extend(state)
        full = self.start + state.index + 1 >= self.limit
        proposal = self.propose(self._continuations(live, logits, full))
        candidates, parents = self._candidates(live, proposal, state.index)
        ended = candidates.finished
        if self.select is None:
            chosen = self._first_unfinished(candidates)
        else:
            shown = self._shown(candidates, parents, state.index, self.beams)
            picked = chosen_mask(self.select, shown)
            chosen = self._grow_on(candidates, picked)
            # Keeps only the best candidates; low-ranked ones are usually truncated.
            ended &= picked | (jnp.arange(ended.shape[1]) < self.beams)
        pool = self._finish(candidates, ended, state.pool)

        def kept(old: Array, new: Array) -> Array:
            done = state.done.reshape(-1, *[1] * (old.ndim - 1))
            return jnp.where(done, old, new)

        # A row that is done stays as it is, however long the others take.
        now = take(candidates, chosen), pool
        live, pool = jax.tree.map(kept, (live, state.pool), now)
        live, pool = self._mark_broken(live, pool, ~whole & ~state.done, state.index)
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
        """Returns float32 logits, whether they are valid, and the next cache.

        The logits of a row are valid if they are finite or if its token is forced.
        """
        batch = state.done.shape[0]
        step = functools.partial(
            wide.step,
            self.tokens_to_logits,
            state.index,
            rows=self.rows,
            offset=self.cache_offset,
            prefilled=self.prefilled,
        )
        logits, cache = step(state.live.tokens, state.cache)
        logits = logits.astype(jnp.float32).reshape(batch, self.beams, -1)
        whole = jnp.all(contract.all_finite(logits), axis=1)
        whole |= self._forced(state.index)[:, 0] != 0
        return logits, whole, contract.match_container(cache, state.cache)

    def _continuations(
        self,
        live: Beams,
        logits: Float[Array, "batch k vocab"],
        last: Bool[Array, " batch"],
    ) -> Continuations:
        """Returns the possible next tokens as the argument of `propose`."""
        peaks = jnp.max(logits, axis=-1)
        log_sums = jnp.log(jnp.sum(jnp.exp(logits - peaks[..., None]), axis=-1))
        return Continuations(
            logits=logits,
            peaks=peaks,
            log_sums=log_sums,
            scores=live.scores,
            log_probs=live.log_probs,
            sequences=self._generated(live.tokens),
            lengths=live.lengths,
            last=last,
            eos_id=self.eos_id,
        )

    def _mark_broken(
        self,
        live: Beams,
        pool: Pool,
        broken: Bool[Array, " batch"],
        index: Int[Array, ""],
    ) -> tuple[Beams, Pool]:
        """Puts `BROKEN` and NaN into rows whose logits are not finite.

        Their pool is emptied, so that they return their live beams.
        """
        column = jnp.arange(live.tokens.shape[-1])
        here = broken[:, None, None] & (column == index + 1)
        live = live.replace(
            tokens=jnp.where(here, contract.BROKEN, live.tokens),
            scores=jnp.where(broken[:, None], 0.0, live.scores),
            log_probs=jnp.where(broken[:, None], jnp.nan, live.log_probs),
        )
        none = jnp.where(broken[:, None], -jnp.inf, pool.scores)
        return live, pool.replace(scores=none)

    def _forced(self, index: Int[Array, ""]) -> Int[Array, "batch 1"]:
        """Returns the token that step `index` must write in each row; 0 means free."""
        return lax.dynamic_slice_in_dim(self.forced, index + 1, 1, axis=1)

    def _only_first(self, n: int) -> Float[Array, " n"]:
        """Returns 0 for the first slot of each group and -1e7 for the others."""
        return jnp.where(jnp.arange(n) % (n // self.groups) == 0, 0.0, NEG_INF)

    def _candidates(
        self, live: Beams, proposal: Proposal, index: Int[Array, ""]
    ) -> tuple[Beams, Int[Array, "batch m"]]:
        """Returns the candidates of a step, and the beam that each continues.

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
        tokens = jnp.where(free, proposal.tokens, forced).astype(jnp.int32)
        in_prompt = (self.start + index < self.prompt)[:, None]
        scores = jnp.where(free, proposal.scores, self._only_first(m))
        log_probs = jnp.where(free, proposal.log_probs, self._only_first(m))
        candidates = Beams(
            tokens=lax.dynamic_update_slice(
                before.tokens, tokens[..., None], (0, 0, index + 1)
            ),
            scores=only_possible(scores, log_probs),
            log_probs=log_probs,
            lengths=before.lengths + ~in_prompt,
            finished=free & (tokens == self.eos_id),
        )
        return candidates, parents

    def _shown(
        self,
        beams: Beams,
        parents: Int[Array, "batch n"],
        index: Int[Array, ""],
        k: int,
    ) -> Candidates:
        """Returns beams as the argument of a `select` that chooses k of them."""
        return Candidates(
            sequences=self._generated(beams.tokens),
            lengths=beams.lengths,
            log_probs=beams.log_probs,
            parents=parents,
            finished=beams.finished,
            source=self.source,
            source_lengths=jnp.sum(self.source != 0, axis=1),
            step=index,
            rng=keys.fold_rows(
                self.row_keys, jnp.broadcast_to(index, self.start.shape)
            ),
            k=k,
            eos_id=self.eos_id,
        )

    def _grow_on(
        self, candidates: Beams, picked: Bool[Array, "batch m"]
    ) -> Int[Array, "batch k"]:
        """Returns the indices of k unfinished candidates, in order of probability.

        Picked candidates come first in the choice; the most probable others fill it.
        """
        possible = ~candidates.finished & (candidates.scores > -jnp.inf)
        rank = jnp.where(possible, jnp.where(picked, 0, 1), 2)
        best = jnp.argsort(rank, axis=1, stable=True)[:, : self.beams]
        # In order of probability, with what is no candidate at the end.
        place = jnp.where(
            jnp.take_along_axis(possible, best, axis=1), best, best + rank.shape[1]
        )
        return jnp.sort(place, axis=1).astype(jnp.int32) % rank.shape[1]

    def _finish(
        self, candidates: Beams, ended: Bool[Array, "batch m"], pool: Pool
    ) -> Pool:
        """Returns the best of the pool and the candidates that have ended."""
        penalty = self.penalty(candidates.lengths)
        ended &= candidates.scores > -jnp.inf
        new = Pool(
            tokens=candidates.tokens,
            scores=jnp.where(ended, candidates.scores / penalty, -jnp.inf),
            results=jnp.where(ended, candidates.log_probs / penalty, NEG_INF),
            lengths=candidates.lengths,
        )
        old, new = jax.tree.map(self.split, (pool, new))
        both = jax.tree.map(lambda *pair: jnp.concatenate(pair, axis=1), old, new)
        _, best = lax.top_k(both.scores, self.keep // self.groups)
        return jax.tree.map(self.join, take(both, best))

    def _first_unfinished(self, candidates: Beams) -> Int[Array, "batch k"]:
        """Returns the most probable unfinished candidates of each group."""
        width = self.beams // self.groups
        chosen = self.join(unfinished_first(self.split(candidates.finished), width))
        per_group = candidates.finished.shape[1] // self.groups
        return chosen + jnp.arange(self.beams) // width * per_group

    def _settled(self, live: Beams, pool: Pool) -> Bool[Array, " batch"]:
        """Returns whether further steps cannot change the result of a row."""
        possible = live.scores > -jnp.inf
        if self.until_full:
            full = jnp.all(pool.scores > -jnp.inf, axis=1)
            return full | ~jnp.any(possible, axis=1)
        # The most that a live beam can still reach: scores only fall, and the penalty
        # divides by the most at the full length.
        width = self.beams // self.groups
        reachable = live.scores / brevity_penalty(self.alpha, self.limit[:, None])
        worst = jnp.min(self.split(pool.scores), axis=1)
        beaten = worst.reshape(-1, self.groups) > reachable[:, ::width]
        return jnp.all(beaten | ~possible[:, ::width], axis=1)

    def split(self, x: Array) -> Array:
        """Reshapes [batch, n, ...] to [batch * groups, n / groups, ...]."""
        return x.reshape(x.shape[0] * self.groups, -1, *x.shape[2:])

    def join(self, x: Array) -> Array:
        """Reshapes [batch * groups, n / groups, ...] to [batch, n, ...]."""
        return x.reshape(self.start.shape[0], -1, *x.shape[2:])

    def penalty(self, lengths: Int[Array, "batch n"]) -> Float[Array, "batch n"]:
        """Returns the length penalty, which divides log probabilities.

        Args:
            lengths: number of generated tokens, without the prompt.
        """
        return brevity_penalty(self.alpha, self.prompt[:, None] + lengths)

    def _generated(
        self, tokens: Int[Array, "batch n length_1"]
    ) -> Int[Array, "batch n length"]:
        """Returns the tokens after the prompt, moved to column 0."""
        length = tokens.shape[2] - 1
        column = (self.prompt - self.start)[:, None] + 1 + jnp.arange(length)
        return jnp.take_along_axis(
            tokens, column[:, None], axis=2, mode="fill", fill_value=0
        )

    def ended(self, state: BeamState, k: int) -> Candidates:
        """Returns the pool as candidates, the best first.

        Args:
            state: state of the loop.
            k: number of candidates to choose.
        """
        pool = state.pool
        real = pool.scores > -jnp.inf
        log_probs = pool.results * self.penalty(pool.lengths)
        beams = Beams(
            tokens=pool.tokens,
            scores=pool.scores,
            log_probs=jnp.where(real, log_probs, NEG_INF),
            lengths=jnp.where(real, pool.lengths, 0),
            finished=real,
        )
        place = jnp.broadcast_to(jnp.arange(self.keep), real.shape)
        return self._shown(beams, place, state.index, k)


def brevity_penalty(alpha: float, length: Array) -> Array:
    """Returns ((5 + length) / 6) ** alpha (Wu et al., 2016, eq. 14).

    Args:
        alpha: strength of the penalty; 0 returns 1.
        length: number of tokens, prompt and EOS included.
    """
    return jnp.power((5.0 + length) / 6.0, alpha)
