"""DiPS: diverse paraphrases by submodular maximization (Kumar et al. 2019).

For a set X of candidates from the ground set V, and a source s (eq. 3-10):

    F(X) = lam (L1 + L2) + (1 - lam) (D1 + D2);
    L1 = mu1 sqrt(sum over x in X, n of w_n |ngrams_n(x) & ngrams_n(s)|);
    L2 = mu2 sqrt(sum over x in X of S(x, s));
    D1 = mu3 sum over n of u_n |union over x in X of ngrams_n(x)|;
    D2 = mu4 sum over v in V, x in X of R(v, x).

The n-grams are sets. S(x, s) is a mean over the words of x: for each word, the largest
exp(-d^2 / sigma^2) to a word of s, where d is the Euclidean distance of embeddings
(with `unit`, of embeddings divided by their norm). R(v, x) is
1 - edit(v, x) / (|v| + |x|).

F is monotone and submodular for lam in [0, 1] and weights >= 0. So the greedy choice
(Algorithm 1) reaches 1 - 1/e of the optimum. Like every D2 of this form, ours rewards
candidates that are close to the whole ground set.

This is the variant `equation3`, the default. With `normalized`, L1, L2, and D1 are
divided by their values on the whole of V, and D2 becomes sqrt(D2 / |V|): the root of
the mean number of representatives of a candidate. The variant `program` is the authors'
program: see `jaxaug.decode.dips_program`. The paper states no w_n, u_n, sigma, or scale
of embeddings: it only requires that w_n grow with n and that u_n fall. EOS counts as a
word.
"""

import functools
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32
from t5x.search.candidates import Candidates
from t5x.search.decode_state import TokensToLogits

from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range, flat
from jaxaug.decode import dips_program, edit_distance, ground_set, ngrams, set_search
from jaxaug.decode.ground_set import GroundSet
from jaxaug.decode.set_search import SetOptions

# F is submodular, and greedily solved with a guarantee, without negative weights only.
_Weights = Annotated[tuple[float, ...], Range(0)]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["lam", "mu", "rbf_sigma", "overlap_weights", "distinct_weights"],
    meta_fields=["mode", "probability", "width", "unit", "variant"],
)
@dataclass(frozen=True, kw_only=True)
class DiPSOptions(SetOptions):
    """Options of the selection by DiPS.

    Attributes:
        mode: this, `probability`, and `width` are as in `SetOptions`.
        lam: weight of L1 + L2 in F, 0 to 1; D1 + D2 have the weight 1 - lam.
        rbf_sigma: width sigma of the kernel on embeddings; None means 0.8, or 1 for the
            variant `program`. 0.8 is for vectors of length 1. In the table of SmolLM2
            the median of 36 pairs of synonyms then counts 0.20, film and movie 0.42,
            and two words of different pairs 0.08. With sigma 1 and plain vectors these
            are 0.002, 0.06, and 0.000. The square of a sigma below 1e-6 would underflow
            in float32.
        unit: whether embeddings are divided by their norm before the comparison; a word
            whose embedding is 0 is then close only to itself. None means True, or False
            for the variant `program`.
        variant: `equation3`, `normalized`, or `program`; see the head of this module. A
            component that is 0 on the ground set is left out of the latter two.
    """

    mode: Literal["step", "final"] = "final"
    lam: Annotated[float, Range(0, 1)] = 0.5
    mu: Annotated[tuple[float, float, float, float], Range(0)] = (1.0, 1.0, 1.0, 1.0)
    rbf_sigma: Annotated[float, Range(1e-6)] | None = None
    unit: bool | None = None
    variant: Literal["equation3", "normalized", "program"] = "equation3"
    overlap_weights: _Weights = (1 / 3, 1 / 2, 1.0)
    distinct_weights: _Weights = (1.0, 1 / 2, 1 / 3)

    @property
    def sigma(self) -> Any:
        """`rbf_sigma`, or the default of the variant."""
        if self.rbf_sigma is None:
            return 1.0 if self.variant == "program" else 0.8
        return self.rbf_sigma

    @property
    def of_unit_length(self) -> bool:
        """`unit`, or the default of the variant."""
        return self.variant != "program" if self.unit is None else self.unit


class Terms(flax.struct.PyTreeNode):
    """Statistics of the n candidates from which F of any set is computed.

    Attributes:
        overlap: [n] weighted number of n-grams that a candidate shares with the source.
        closeness: [n] S(x, s).
        masks: [orders, n, words] sets of n-grams, as bits.
        centrality: [n] sum over v of R(v, x).
        valid: [n] False for fillers, which are not candidates.
        normalised: static, whether the root of D2 is taken too.
        scale: [4] factors of L1, L2, D1, and D2: mu, divided by the normalization.
    """

    overlap: Float[Array, " n"]
    closeness: Float[Array, " n"]
    masks: UInt32[Array, "orders n words"]
    distinct_weights: Float[Array, " orders"]
    centrality: Float[Array, " n"]
    valid: Bool[Array, " n"]
    lam: Float[Array, ""]
    scale: Float[Array, " 4"]
    normalised: bool = flax.struct.field(pytree_node=False)

    def components(self, members: Bool[Array, " n"]) -> Float[Array, " 4"]:
        """Returns L1, L2, D1, and D2 of a set, without the factors of `scale`.

        If `normalised`, the root of D2 is returned instead of D2.
        """
        covered = ngrams.count(ngrams.union(self.masks, members))
        coverage = jnp.sum(self.centrality * members)
        return jnp.stack(
            [
                jnp.sqrt(jnp.sum(self.overlap * members)),
                jnp.sqrt(jnp.sum(self.closeness * members)),
                jnp.sum(self.distinct_weights * covered),
                jnp.sqrt(coverage) if self.normalised else coverage,
            ]
        )

    def shares(self) -> Float[Array, " 4"]:
        """Returns how much one unit of each component adds to F."""
        return self.scale * jnp.stack([self.lam] * 2 + [1 - self.lam] * 2)


def _closeness(
    ground: GroundSet,
    source: Int[Array, " source_length"],
    source_length: Int[Array, ""],
    embeddings: Float[Array, "vocab d"],
    options: DiPSOptions,
) -> Float[Array, " n"]:
    """Returns S(x, s) of every candidate; 0 for empty candidates and sources."""
    groups, length = ground.prefixes.shape
    embeddings = jnp.asarray(embeddings)
    tokens = jnp.concatenate([ground.prefixes.ravel(), ground.token])
    ours = embeddings[tokens].astype(jnp.float32)
    theirs = embeddings[source].astype(jnp.float32)
    dot = jnp.matmul(ours, theirs.T, precision=lax.Precision.HIGHEST)
    norms = (ours**2).sum(axis=1)[:, None], (theirs**2).sum(axis=1)
    if options.of_unit_length:
        product = norms[0] * norms[1]
        cosine = dot * lax.rsqrt(jnp.where(product > 0, product, 1))
        # A word without an embedding, which is 0, is close to itself alone.
        square = jnp.where(product > 0, 2 - 2 * cosine, jnp.inf)
    else:
        square = norms[0] + norms[1] - 2 * dot
    # Rounding must not part a word from itself.
    square = jnp.where(tokens[:, None] == source, 0.0, jnp.maximum(square, 0.0))
    inside = jnp.arange(source.shape[0]) < source_length
    nearest = jnp.min(jnp.where(inside, square, jnp.inf), axis=1, initial=jnp.inf)
    close = jnp.exp(-nearest / jnp.square(options.sigma))
    prefix = close[: groups * length].reshape(groups, length)
    inside = jnp.arange(length) < ground.prefix_lengths[:, None]
    total = jnp.sum(prefix * inside, axis=1)[ground.group]
    total += close[groups * length :] * ground.extended
    return total / jnp.maximum(ground.lengths, 1)


def make_terms(
    ground: GroundSet,
    source: Int[Array, " source_length"],
    source_length: Int[Array, ""],
    steps: int | Int[Array, ""] | None = None,
    *,
    embeddings: Float[Array, "vocab d"] | None,
    options: DiPSOptions,
) -> Terms:
    """Computes the statistics of candidates that F needs; see the head of this module.

    Args:
        source: zero-padded token ids.
        steps: upper bound of the prefix lengths in `ground`, which bounds the loop;
            None means all columns.
        embeddings: table of the token ids; None sets L2 to 0.
    """
    given = options.overlap_weights, options.distinct_weights
    orders = max(map(len, given))
    own, of_source = ngrams.ground_masks(ground, source, source_length, orders)
    overlap, distinct = (
        jnp.zeros((orders,)).at[: len(weights)].set(jnp.asarray(weights, jnp.float32))
        for weights in given
    )
    shared = ngrams.count(own & of_source[:, None])
    valid = ground.valid
    closeness = jnp.zeros(valid.shape)
    if embeddings is not None:
        closeness = _closeness(ground, source, source_length, embeddings, options)
    resemblance = 1 - edit_distance.dissimilarity(ground, steps)
    terms = Terms(
        # Not a matrix product, which some devices round to bfloat16.
        overlap=jnp.sum(overlap[:, None] * shared, axis=0) * valid,
        closeness=closeness * valid,
        masks=own,
        distinct_weights=distinct,
        centrality=jnp.sum(resemblance * valid[:, None], axis=0) * valid,
        valid=valid,
        lam=jnp.asarray(options.lam, jnp.float32),
        scale=jnp.asarray(options.mu, jnp.float32),
        normalised=options.variant == "normalized",
    )
    if options.variant == "normalized":
        whole = terms.components(valid)
        whole = whole.at[3].set(jnp.sqrt(jnp.sum(valid)))
        terms = terms.replace(
            scale=jnp.where(whole > 0, terms.scale / jnp.where(whole > 0, whole, 1), 0)
        )
    return terms


def _added(terms: Terms) -> Float[Array, "3 n"]:
    """Returns what each candidate adds under the roots of L1, L2, and D2."""
    return jnp.stack([terms.overlap, terms.closeness, terms.centrality])


def _gains(
    terms: Terms, covered: UInt32[Array, "orders words"], sums: Float[Array, " 3"]
) -> Float[Array, " n"]:
    """Returns how much each candidate would add to F.

    Differences of roots are computed without cancellation: sqrt(a + b) - sqrt(a) is
    b / (sqrt(a + b) + sqrt(a)).
    """
    added = _added(terms)
    roots = jnp.sqrt(sums[:, None] + added) + jnp.sqrt(sums)[:, None]
    l1, l2, d2 = jnp.where(added > 0, added / jnp.where(added > 0, roots, 1), 0)
    new = ngrams.count(terms.masks & ~covered[:, None])
    d1 = jnp.sum(terms.distinct_weights[:, None] * new, axis=0)
    parts = jnp.stack([l1, l2, d1, d2 if terms.normalised else terms.centrality])
    return jnp.sum(terms.shares()[:, None] * parts, axis=0)


def greedy(terms: Terms, k: int) -> Int[Array, " k"]:
    """Maximizes F greedily; returns the k chosen indices in order of selection."""

    def step(state, _):
        chosen, covered, sums = state
        pick = ground_set.best_of(_gains(terms, covered, sums), terms.valid, chosen)
        return (
            chosen.at[pick].set(True),
            covered | terms.masks[:, pick],
            sums + _added(terms)[:, pick],
        ), pick

    start = (
        jnp.zeros_like(terms.valid),
        jnp.zeros_like(terms.masks[:, 0]),
        jnp.zeros((3,)),
    )
    return lax.scan(step, start, length=k)[1]


@flat(DiPSOptions)
@functools.partial(jax.jit, static_argnames="k")
def greedy_select(
    candidates: Int[Array, "n max_len"],
    lengths: Int[Array, " n"],
    source: Int[Array, " source_len"],
    source_length: Int[Array, ""],
    k: int,
    *,
    embeddings: Float[Array, "vocab d"] | None,
    options: DiPSOptions,
) -> Int[Array, " k"]:
    """Chooses k candidates by the greedy maximization of F (Algorithm 1).

    Args:
        candidates: zero-padded token ids; EOS counts as a word if it is included.
        lengths: number of tokens of each candidate.
        source: zero-padded token ids; may be longer or shorter than `max_len`.
        embeddings: table of the token ids; None leaves out L2.

    Returns:
        Indices in order of selection. Gains within one part in 1e5 count as equal, and
        the lowest index wins.

    Raises:
        UserError: k is not in 1..n.
    """
    ground_set.check_size(k, candidates.shape[0])
    if options.variant == "program":
        return dips_program.choose(
            candidates,
            lengths,
            jnp.ones_like(lengths, bool),
            source,
            source_length,
            k,
            embeddings=embeddings,
            options=options,
        )
    terms = make_terms(
        ground_set.from_sequences(candidates, lengths),
        source,
        source_length,
        embeddings=embeddings,
        options=options,
    )
    return greedy(terms, k)


@flat(DiPSOptions)
@jax.jit
def objective(
    selected_mask: Bool[Array, " n"],
    candidates: Int[Array, "n max_len"],
    lengths: Int[Array, " n"],
    source: Int[Array, " source_len"],
    source_length: Int[Array, ""],
    *,
    embeddings: Float[Array, "vocab d"] | None,
    options: DiPSOptions,
) -> dict[str, Float[Array, ""]]:
    """Returns F of a set of candidates, and its components.

    All candidates together are the ground set.

    Returns:
        `l1`, `l2`, `d1`, and `d2`, which include mu and the normalization, and
        `total` = lam (l1 + l2) + (1 - lam) (d1 + d2).

    Raises:
        UserError: the variant is `program`, whose F depends on the order of selection.
    """
    if options.variant == "program":
        raise UserError(
            "objective: variant='program' gives no value to a set, as its F depends "
            "on the order of selection: use 'equation3' or 'normalized'."
        )
    terms = make_terms(
        ground_set.from_sequences(candidates, lengths),
        source,
        source_length,
        embeddings=embeddings,
        options=options,
    )
    parts = terms.components(jnp.asarray(selected_mask, bool))
    names = ("l1", "l2", "d1", "d2")
    values = dict(zip(names, parts * terms.scale, strict=True))
    return {**values, "total": jnp.sum(parts * terms.shares())}


def choose(
    candidates: Candidates,
    ground: GroundSet,
    longest: Int[Array, ""],
    *,
    embeddings: Float[Array, "vocab d"] | None,
    options: DiPSOptions,
) -> Int[Array, "batch k"]:
    """Maximizes F greedily in each row; see `set_search.Choose`.

    Raises:
        UserError: embeddings are required and missing.
    """
    if options.mu[1] == 0:
        embeddings = None
    elif embeddings is None:
        raise UserError(
            f"DiPS with mu = {options.mu} compares words by embeddings, and none are "
            "given: use a model that hands its token embeddings to the decoder "
            "(jaxaug.models.t5.SourceEncoderDecoderModel), give `embedding_table`, or "
            "set mu[1] to 0."
        )

    if options.variant == "program":
        # The program sees words without EOS.
        program = functools.partial(
            dips_program.choose, k=candidates.k, embeddings=embeddings, options=options
        )
        return jax.vmap(program)(
            candidates.sequences,
            candidates.lengths - candidates.finished,
            candidates.possible,
            candidates.source,
            candidates.source_lengths,
        )

    def row(
        ground: GroundSet, source: Int[Array, " length"], length: Int[Array, ""]
    ) -> Int[Array, " k"]:
        terms = make_terms(
            ground, source, length, longest, embeddings=embeddings, options=options
        )
        return greedy(terms, candidates.k)

    return jax.vmap(row)(ground, *ground_set.sources(candidates))


@flat(DiPSOptions)
def decode(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 4,
    *,
    embedding_table: Float[Array, "vocab d"] | None = None,
    embeddings: Float[Array, "vocab d"] | None = None,
    options: DiPSOptions,
    initial_index: Int[Array, " batch"] | None = None,
    **others: Any,
) -> tuple[Int[Array, "batch k length"], Float[Array, "batch k"]]:
    """Runs a beam search that selects sets by DiPS: a decode function of T5X.

    Args:
        inputs: see `beam.search`, also for the arguments that are not listed here.
        embedding_table: table of the token ids for L2; None means `embeddings`.
        others: further arguments of `beam.search`; `num_candidates` is 3k by default.

    Raises:
        UserError: an option is out of range, or embeddings are missing.
    """
    table = embeddings if embedding_table is None else embedding_table
    return set_search.search(
        inputs,
        cache,
        tokens_to_logits,
        eos_id,
        num_decodes,
        choose=functools.partial(choose, embeddings=table, options=options),
        options=options,
        initial_index=initial_index,
        **others,
    )
