"""The beam search of all decoders: one loop with pluggable functions.

`propose` makes the candidates of a step, `select` chooses those that stay in the beam,
and `last` chooses the results among the finished hypotheses.

A row has `k` beams, in `groups` groups of k / groups adjacent beams; most searches have
one group. A step has `m` candidates per row, and the pool has `n` finished hypotheses.
Beams and candidates are sorted, the best first.
"""

import dataclasses
import functools
import math
import numbers
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from t5x import checks
from t5x.errors import UserError
from t5x.search.candidates import (
    IMPOSSIBLE,
    Candidates,
    Continuations,
    Proposal,
    Propose,
    Select,
    chosen_mask,
    most_probable,
    only_possible,
    take,
    unfinished_first,
)
from t5x.search.decode_state import (
    BROKEN,
    NEG_INF_VALUE,
    Cache,
    DecodingState,
    TokensToLogits,
    add_beam_dim,
    cache_gather_beams,
    cache_map,
    check_decodes,
    flatten_beam_dim,
    prompt_lengths,
    share_history,
    start_index,
    unflatten_beam_dim,
)
from t5x.state_utils import as_container

# Scores are log probabilities divided by penalties; this bound keeps them in float32.
_LARGEST_PENALTY = 1e30

Result = tuple[Int[Array, "batch rows length"], Float[Array, "batch rows"]]


def brevity_penalty(alpha: float, length: int | Array) -> Array:
    """Returns ((5 + length) / 6) ** alpha (Wu et al., 2016, eq. 14)."""
    return jnp.power((5.0 + length) / 6.0, alpha)


def check_alpha(name: str, alpha: Any, length: int, least: float = -math.inf) -> None:
    """Refuses an alpha whose penalty is 0 or infinite in float32, or below `least`.

    Arrays are accepted. `length` is the maximum number of tokens.
    """
    if not isinstance(alpha, (numbers.Real, str)):
        return
    checks.number(name, alpha, least)
    most = math.log(_LARGEST_PENALTY) / math.log((6 + max(length, 1)) / 6)
    if abs(float(alpha)) > most:
        raise UserError(
            f"{name} = {alpha!r}: the length penalty of {length} tokens leaves "
            f"float32. Give a number from {max(least, -most):.1f} to {most:.1f}; 0 is "
            "no penalty."
        )


class _Beams(flax.struct.PyTreeNode):
    """Beams or candidates, n per row.

    Column 0 of `tokens` is BOS or the last token in the cache; see `Proposal` for
    scores. `lengths` counts generated tokens. `finished` means that the last one is
    EOS.
    """

    tokens: Int[Array, "batch n length_1"]
    scores: Float[Array, "batch n"]
    log_probs: Float[Array, "batch n"]
    lengths: Int[Array, "batch n"]
    finished: Bool[Array, "batch n"]


class _Pool(flax.struct.PyTreeNode):
    """Finished hypotheses; a slot with the score -inf is empty.

    `scores` (of `Proposal`) rank the hypotheses, and `results` are log probabilities;
    both are divided by the length penalty.
    """

    tokens: Int[Array, "batch n length_1"]
    scores: Float[Array, "batch n"]
    results: Float[Array, "batch n"]
    lengths: Int[Array, "batch n"]

    @property
    def real(self) -> Bool[Array, "batch n"]:
        return self.scores > -jnp.inf


class _State(flax.struct.PyTreeNode):
    """State of the loop.

    `index` is the number of completed steps and the column of the tokens to feed. Rows
    that are `done` are final. The cache leads with [batch, k].
    """

    index: Int[Array, ""]
    live: _Beams
    pool: _Pool
    done: Bool[Array, " batch"]
    cache: Any


def run(
    inputs: Int[Array, "batch length"],
    cache: Cache,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    rows: int,
    *,
    propose: Propose | None = None,
    select: Select | None = None,
    last: Select | None = None,
    limit: Int[Array, " batch"],
    length: int | None = None,
    alpha: float,
    min_log_prob: float = -math.inf,
    beams: int | None = None,
    keep: int | None = None,
    groups: int = 1,
    source: Int[Array, "batch source_length"] | None = None,
    row_keys: Shaped[Array, "batch ..."] | None = None,
    prompt_ends: bool = False,
    cache_offset: int = 0,
    initial_index: Int[Array, " batch"] | None = None,
) -> Result:
    """Runs a beam search.

    Finished hypotheses move to the pool. Without `select` and `last`, a row stops when
    the worst hypothesis in its full pool beats the best score that a live beam could
    reach. With one of them it stops when its pool is full. A row that has stopped does
    not change while other rows continue.

    Args:
        propose: makes the candidates of a step; None means the 2k most probable.
        select: chooses the continuations that stay in the beam; None means the most
            probable ones.
        last: chooses the results from the pool; None means the best ones.
        limit: maximum number of tokens of each row, prompt included.
        length: columns of the result; None means as in the inputs.
        alpha: exponent of the length penalty.
        min_log_prob: stop a row once none of its live beams has a higher log
            probability.
        beams: k, a multiple of `rows`; None means `rows`.
        keep: n, size of the pool; None means k.
        groups: number of groups; with several, n is k.
        source: inputs that `select` and `last` see, without EOS; None means zeros.
        row_keys: random key of each row, for a `select` that draws.
        prompt_ends: whether an EOS of the prompt ends a hypothesis.

    Returns:
        Tokens without BOS, 0 after EOS, and log probabilities divided by the length
        penalty, both sorted ascending. A row without a finished hypothesis returns its
        live beams and their plain log probabilities; with `select`, `last`, or several
        groups, live beams fill all empty slots instead and are sorted before the
        others. Other empty slots hold zeros and a score of -1e7, or the score of the
        worst hypothesis if it is lower. A row ends with token `BROKEN` and score NaN if
        its logits are NaN or +inf, or if no beam has a logit above -inf.

    Raises:
        UserError: outside of compiled programs, a row is broken.
        ValueError: `select` or `last` returns another shape than [batch, k].
    """
    batch = inputs.shape[0]
    length = inputs.shape[1] if length is None else length
    start = start_index(inputs, initial_index)
    # Column `length` is the last one written, and it is free unless forced.
    forced = jnp.pad(inputs, ((0, 0), (0, length + 1)))
    columns = start[:, None] + jnp.arange(length + 1)
    forced = jnp.take_along_axis(forced, columns, axis=1)
    if initial_index is None:
        forced = forced.at[:, 0].set(0)
    beams = beams or rows
    search = _Search(
        tokens_to_logits=tokens_to_logits,
        propose=propose or functools.partial(most_probable, m=2 * beams),
        select=select,
        forced=forced,
        start=start,
        prompt=prompt_lengths(inputs, start),
        limit=limit,
        prefilled=initial_index is not None,
        source=jnp.zeros((batch, 1), jnp.int32) if source is None else source,
        row_keys=row_keys,
        eos_id=eos_id,
        beams=beams,
        rows=rows,
        keep=keep or beams,
        until_full=select is not None or last is not None,
        groups=groups,
        alpha=alpha,
        min_log_prob=min_log_prob,
        prompt_ends=prompt_ends,
        cache_offset=cache_offset,
    )
    state = lax.while_loop(
        lambda state: ~jnp.all(state.done), search.step, search.first(cache)
    )
    if search.until_full or groups > 1:
        tokens, scores = search.filled(state, last)
    else:
        tokens, scores = search.best(state)
    # The prompts that the cache held come before the decoded tokens, without BOS.
    column = jnp.arange(length)
    decodes = jnp.take_along_axis(
        tokens, jnp.maximum(column - start[:, None] + 1, 0)[:, None], axis=2
    )
    prompt = jnp.pad(inputs[:, 1 : length + 1], ((0, 0), (0, length)))[:, :length]
    in_prompt = (column < start[:, None])[:, None]
    decodes = jnp.where(in_prompt, prompt[:, None], decodes)
    check_decodes(decodes)
    return decodes, scores


@dataclasses.dataclass(frozen=True)
class _Search:
    """The constants of one search; columns of tokens count from the row's start.

    `forced` are tokens to force at a column; 0 means free. `start` and `prompt` are
    numbers of prompt tokens, in the cache and in all. See `run` for the others.
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
    row_keys: Any
    eos_id: int
    beams: int
    rows: int
    keep: int
    until_full: bool
    groups: int
    alpha: float
    min_log_prob: float
    prompt_ends: bool
    cache_offset: int

    def first(self, cache: Cache) -> _State:
        """Returns the state before the first step: one live beam in every group."""
        batch, columns = self.forced.shape
        shape, kept = (batch, self.beams), (batch, self.keep)
        log_probs = jnp.broadcast_to(self._only_first(self.beams), shape)
        tokens = jnp.zeros((*shape, columns), jnp.int32)
        if self.beams == self.rows:  # Sets of rows do not see each other.
            cache = share_history(cache, self.beams)
        expand = functools.partial(
            add_beam_dim, beam_size=self.beams, offset=self.cache_offset
        )
        return _State(
            index=jnp.zeros((), jnp.int32),
            live=_Beams(
                tokens=tokens.at[:, :, 0].set(self.forced[:, :1]),
                scores=only_possible(log_probs, log_probs),
                log_probs=log_probs,
                lengths=jnp.zeros(shape, jnp.int32),
                finished=jnp.zeros(shape, jnp.bool_),
            ),
            pool=_Pool(
                tokens=jnp.zeros((*kept, columns), jnp.int32),
                scores=jnp.full(kept, -jnp.inf, jnp.float32),
                results=jnp.full(kept, NEG_INF_VALUE, jnp.float32),
                lengths=jnp.zeros(kept, jnp.int32),
            ),
            done=self.start >= self.limit,
            cache=cache_map(expand, cache, apply_to_index=self.prefilled),
        )

    def step(self, state: _State) -> _State:
        """Extends every beam by one token and selects the next beams."""
        live, index = state.live, state.index
        logits, cache = self._extend(state)
        full = self.start + index + 1 >= self.limit
        continuations = Continuations.of(
            logits,
            scores=live.scores,
            log_probs=live.log_probs,
            sequences=self._generated(live.tokens),
            lengths=live.lengths,
            last=full,
            eos_id=self.eos_id,
        )
        proposal = self.propose(continuations)
        candidates, parents = self._candidates(live, proposal, index)
        ended = candidates.finished
        if self.select is None:
            chosen = self._first_unfinished(candidates)
        else:
            shown = self._shown(candidates, parents, index, self.beams)
            picked = chosen_mask(self.select, shown)
            chosen = self._grow_on(candidates, picked)
            # Keeps only the best candidates; low-ranked ones are usually truncated.
            ended &= picked | (jnp.arange(ended.shape[1]) < self.beams)
        pool = self._finish(candidates, ended, state.pool)
        broken = self._is_broken(state, logits) & ~state.done
        stopped = state.done | broken

        def kept(old: Array, new: Array) -> Array:
            return jnp.where(stopped.reshape(-1, *[1] * (old.ndim - 1)), old, new)

        # A row that is done stays as it is, however long the others take.
        now = take(candidates, chosen), pool
        live, pool = jax.tree.map(kept, (live, state.pool), now)
        live, pool = self._mark_broken(live, pool, broken, index)
        return _State(
            index=index + 1,
            live=live,
            pool=pool,
            done=stopped | full | self._settled(live, pool, index + 1),
            cache=cache_gather_beams(
                cache,
                take(parents, chosen),
                full.shape[0],
                self.beams,
                self.beams,
                offset=self.cache_offset,
            ),
        )

    def best(self, state: _State) -> Result:
        """Returns the pool of each row, or its live beams if the pool is empty."""
        live, pool = state.live, state.pool
        ended = jnp.any(pool.real, axis=1, keepdims=True)
        tokens = jnp.where(ended[..., None], pool.tokens, live.tokens)
        # The worst score may be below the score of empty slots, which are sorted first.
        worst = jnp.min(pool.results, axis=1, keepdims=True)
        results = jnp.where(pool.real, pool.results, worst)
        scores = jnp.where(ended, results, live.log_probs)
        order = jnp.flip(jnp.argsort(-scores, axis=1, stable=True), axis=1)
        return take(tokens, order), take(scores, order)

    def filled(self, state: _State, last: Select | None) -> Result:
        """Returns the hypotheses that `last` chooses from the pool.

        Without `last` they are the best of each group. Live beams fill empty slots.
        """
        groups, k, split = self.groups, self.rows, self._split
        live, pool = state.live, state.pool
        picked = pool.real if last is None else chosen_mask(last, self._ended(state, k))
        rank = jnp.where(pool.real, jnp.where(picked, 0, 1), 2)
        best = jnp.argsort(split(rank), axis=1, stable=True)[:, : k // groups]
        tokens, scores, ended = take(
            jax.tree.map(split, (pool.tokens, pool.results, pool.real)), best
        )
        # Slots that stayed empty are the last: they get the best live beams in order.
        of_live = split(live.log_probs / self._penalty(live.lengths))
        of_live = jnp.where(split(live.scores > -jnp.inf), of_live, NEG_INF_VALUE)
        # A broken row has scores that are no numbers, and they have to be seen.
        of_live = jnp.where(jnp.isnan(split(live.log_probs)), jnp.nan, of_live)
        slot = jnp.arange(k // groups) - jnp.sum(ended, axis=1, keepdims=True)
        growing = take((split(live.tokens), of_live), jnp.maximum(slot, 0))
        seen = (growing[1] > IMPOSSIBLE) | jnp.isnan(growing[1])
        tokens = jnp.where(
            ended[..., None], tokens, jnp.where(seen[..., None], growing[0], 0)
        )
        scores = jnp.where(ended, scores, growing[1])
        tokens, scores, ended = map(self._join, (tokens, scores, ended))
        order = jnp.flip(jnp.lexsort((-scores, ~ended), axis=1), axis=1)
        return take(tokens, order), take(scores, order)

    def _extend(self, state: _State) -> tuple[Float[Array, "batch k vocab"], Cache]:
        """Returns the float32 logits of all beams, and the cache after the step.

        `tokens_to_logits` takes batch * rows rows. A wider beam is divided into several
        such sets, computed by `jax.vmap` over an additional axis of every array.
        """
        tokens, offset, rows = state.live.tokens, self.cache_offset, self.rows
        batch, beams, _ = tokens.shape
        mapped = functools.partial(cache_map, apply_to_index=self.prefilled)

        def one_set(tokens: Array, cache: Any) -> tuple[Array, Any]:
            flat = flatten_beam_dim(tokens)
            logits, cache = self.tokens_to_logits(
                DecodingState(
                    cur_index=state.index,
                    sequences=flat,
                    cur_token=lax.dynamic_slice_in_dim(flat, state.index, 1, axis=1),
                    cache=mapped(lambda x: flatten_beam_dim(x, offset), cache),
                )
            )
            cache = mapped(lambda x: unflatten_beam_dim(x, batch, rows, offset), cache)
            logits = unflatten_beam_dim(logits.astype(jnp.float32), batch, rows)
            return logits, cache

        if beams == rows:
            logits, cache = one_set(tokens, state.cache)
            return logits, as_container(cache, state.cache)
        sets = beams // rows
        at = offset + 1

        def apart(x: Array) -> Array:
            return x.reshape(*x.shape[:at], sets, rows, *x.shape[at + 1 :])

        def together(x: Array) -> Array:
            return x.reshape(*x.shape[:at], beams, *x.shape[at + 2 :])

        # What all rows share, such as the index of the cache, has no such axis.
        shared = jax.tree.map(lambda _: False, state.cache)
        has_axis = jax.tree.leaves(mapped(lambda _: True, shared))
        leaves, structure = jax.tree.flatten(mapped(apart, state.cache))
        axes = [at if has else None for has in has_axis]

        def of_leaves(tokens: Array, leaves: list[Array]) -> tuple[Array, list[Array]]:
            logits, cache = one_set(tokens, jax.tree.unflatten(structure, leaves))
            return logits, jax.tree.leaves(cache)

        logits, leaves = jax.vmap(of_leaves, in_axes=(1, axes), out_axes=(1, axes))(
            tokens.reshape(batch, sets, rows, -1), leaves
        )
        cache = mapped(together, jax.tree.unflatten(structure, leaves))
        return logits.reshape(batch, beams, -1), as_container(cache, state.cache)

    def _is_broken(
        self, state: _State, logits: Float[Array, "batch k vocab"]
    ) -> Bool[Array, " batch"]:
        """Returns the rows in which no token can be chosen and none is forced.

        They have logits that are NaN or +inf; or all logits of every possible beam are
        -inf and no hypothesis is finished.
        """
        peaks = jnp.max(logits, axis=-1)
        dead = jnp.isneginf(peaks)
        none_left = jnp.all(dead | (state.live.log_probs <= IMPOSSIBLE), axis=1)
        none_left &= jnp.any(dead, axis=1) & ~jnp.any(state.pool.real, axis=1)
        broken = jnp.any(~jnp.isfinite(peaks) & ~dead, axis=1) | none_left
        return broken & (self._forced(state.index)[:, 0] == 0)

    def _mark_broken(
        self,
        live: _Beams,
        pool: _Pool,
        broken: Bool[Array, " batch"],
        index: Int[Array, ""],
    ) -> tuple[_Beams, _Pool]:
        """Puts `BROKEN` and NaN into broken rows.

        Their pool is emptied, so that they return their live beams.
        """
        column = jnp.arange(live.tokens.shape[-1])
        here = broken[:, None, None] & (column == index + 1)
        live = live.replace(
            tokens=jnp.where(here, BROKEN, live.tokens),
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
        return jnp.where(jnp.arange(n) % (n // self.groups) == 0, 0.0, NEG_INF_VALUE)

    def _candidates(
        self, live: _Beams, proposal: Proposal, index: Int[Array, ""]
    ) -> tuple[_Beams, Int[Array, "batch m"]]:
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
        candidates = _Beams(
            tokens=lax.dynamic_update_slice(
                before.tokens, tokens[..., None], (0, 0, index + 1)
            ),
            scores=only_possible(scores, log_probs),
            log_probs=log_probs,
            lengths=before.lengths + ~in_prompt,
            finished=(free | self.prompt_ends) & (tokens == self.eos_id),
        )
        return candidates, parents

    def _shown(
        self,
        beams: _Beams,
        parents: Int[Array, "batch n"],
        index: Int[Array, ""],
        k: int,
    ) -> Candidates:
        """Returns beams as the argument of a `select` that chooses k of them."""
        step = jnp.broadcast_to(index, self.start.shape)
        return Candidates(
            sequences=self._generated(beams.tokens),
            lengths=beams.lengths,
            log_probs=beams.log_probs,
            parents=parents,
            finished=beams.finished,
            source=self.source,
            source_lengths=jnp.sum(self.source != 0, axis=1),
            step=index,
            rng=jax.vmap(jax.random.fold_in)(self.row_keys, step),
            k=k,
            eos_id=self.eos_id,
        )

    def _grow_on(
        self, candidates: _Beams, picked: Bool[Array, "batch m"]
    ) -> Int[Array, "batch k"]:
        """Returns the indices of k unfinished candidates, in order of probability.

        Picked candidates come first in the choice; the most probable others fill it.
        """
        possible = ~candidates.finished & (candidates.scores > -jnp.inf)
        rank = jnp.where(possible, jnp.where(picked, 0, 1), 2)
        best = jnp.argsort(rank, axis=1, stable=True)[:, : self.beams]
        # In order of probability, with what is no candidate at the end.
        place = jnp.where(take(possible, best), best, best + rank.shape[1])
        return jnp.sort(place, axis=1).astype(jnp.int32) % rank.shape[1]

    def _finish(
        self, candidates: _Beams, ended: Bool[Array, "batch m"], pool: _Pool
    ) -> _Pool:
        """Returns the best of the pool and the candidates that have ended."""
        penalty = self._penalty(candidates.lengths)
        ended &= candidates.scores > -jnp.inf
        new = _Pool(
            tokens=candidates.tokens,
            scores=jnp.where(ended, candidates.scores / penalty, -jnp.inf),
            results=jnp.where(ended, candidates.log_probs / penalty, NEG_INF_VALUE),
            lengths=candidates.lengths,
        )
        old, new = jax.tree.map(self._split, (pool, new))
        both = jax.tree.map(lambda *pair: jnp.concatenate(pair, axis=1), old, new)
        _, best = lax.top_k(both.scores, self.keep // self.groups)
        return jax.tree.map(self._join, take(both, best))

    def _first_unfinished(self, candidates: _Beams) -> Int[Array, "batch k"]:
        """Returns the most probable unfinished candidates of each group."""
        width = self.beams // self.groups
        chosen = self._join(unfinished_first(self._split(candidates.finished), width))
        per_group = candidates.finished.shape[1] // self.groups
        return chosen + jnp.arange(self.beams) // width * per_group

    def _settled(
        self, live: _Beams, pool: _Pool, index: Int[Array, ""]
    ) -> Bool[Array, " batch"]:
        """Returns whether further steps cannot change the result of a row."""
        possible = live.scores > -jnp.inf
        if self.until_full:
            full = jnp.all(pool.real, axis=1)
            return full | ~jnp.any(possible, axis=1)
        # The most that a live beam can still reach: scores only fall, and the penalty
        # is largest at the full length, or at the next token if alpha is negative.
        ends = jnp.stack([self.limit, jnp.minimum(self.start + index + 1, self.limit)])
        penalty = jnp.max(brevity_penalty(self.alpha, ends), axis=0)
        width = self.beams // self.groups
        reachable = (live.scores / penalty[:, None])[:, ::width]
        worst = jnp.min(self._split(pool.scores), axis=1).reshape(-1, self.groups)
        settled = jnp.all((worst > reachable) | ~possible[:, ::width], axis=1)
        return settled | (live.log_probs[:, 0] < self.min_log_prob)

    def _split(self, x: Array) -> Array:
        """Reshapes [batch, n, ...] to [batch * groups, n / groups, ...]."""
        return x.reshape(x.shape[0] * self.groups, -1, *x.shape[2:])

    def _join(self, x: Array) -> Array:
        """Reshapes [batch * groups, n / groups, ...] to [batch, n, ...]."""
        return x.reshape(self.start.shape[0], -1, *x.shape[2:])

    def _penalty(self, lengths: Int[Array, "batch n"]) -> Float[Array, "batch n"]:
        """Returns the length penalty of a number of generated tokens."""
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

    def _ended(self, state: _State, k: int) -> Candidates:
        """Returns the pool as k of its candidates are to be chosen, the best first."""
        pool = state.pool
        log_probs = pool.results * self._penalty(pool.lengths)
        beams = _Beams(
            tokens=pool.tokens,
            scores=pool.scores,
            log_probs=jnp.where(pool.real, log_probs, NEG_INF_VALUE),
            lengths=jnp.where(pool.real, pool.lengths, 0),
            finished=pool.real,
        )
        place = jnp.broadcast_to(jnp.arange(self.keep), pool.real.shape)
        return self._shown(beams, place, state.index, k)
