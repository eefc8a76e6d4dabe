"""DiPS: parity with plain Python, its properties, and its use in a beam step."""

import difflib
import functools
import math

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_kit import EOS, WIDTH, arguments, beam_step, select, words
from t5x.search.candidates import Candidates

from jaxaug.core.errors import UserError
from jaxaug.decode import dips, dips_program, dpp, set_search, ssr

COUNT, VOCAB = 6, 6
EMBEDDINGS = np.random.default_rng(0).normal(size=(VOCAB, 3)).astype(np.float32)
SENTENCE = st.lists(st.integers(1, VOCAB - 1), max_size=WIDTH)
GROUND = st.lists(SENTENCE, min_size=COUNT, max_size=COUNT)
# Equation 3, with plain embeddings.
PLAIN = {"unit": False, "rbf_sigma": 1.0}
OPTIONS = st.fixed_dictionaries(
    {
        "lam": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "variant": st.sampled_from(["equation3", "normalized"]),
        "unit": st.booleans(),
        "rbf_sigma": st.sampled_from([0.5, 1.0, 2.0]),
        "mu": st.sampled_from([(1.0, 1.0, 1.0, 1.0), (2.0, 0.5, 0.0, 3.0)]),
    }
)


def in_python(ground, source, **options):
    return naive.Dips(ground, source, EMBEDDINGS.astype(float).tolist(), **options)


def total(members, ground, source, **options) -> float:
    mask = jnp.array([i in members for i in range(len(ground))])
    found = dips.objective(
        mask, *arguments(ground, source), embeddings=EMBEDDINGS, **options
    )
    return float(found["total"])


def test_components_by_hand():
    # Token 3 has distance 1 to token 1; token 2 is far from all others.
    embeddings = jnp.array([[9.0, 0], [0, 0], [50, 0], [0, 1.0]])
    ground = [[1, 2], [1, 3, 1]]
    found = dips.objective(
        jnp.array([True, True]),
        *arguments(ground, [1, 2, 1]),
        embeddings=embeddings,
        lam=0.25,
        **PLAIN,
    )
    l1 = math.sqrt((2 / 3 + 1 / 2) + 1 / 3)
    l2 = math.sqrt(1.0 + (2 + math.exp(-1)) / 3)
    d1 = 3 + 3 / 2 + 1 / 3
    d2 = 2 + 2 * (1 - 2 / 5)
    expected = {"l1": l1, "l2": l2, "d1": d1, "d2": d2}
    assert set(found) == {*expected, "total"}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-6), name
    assert found["total"] == pytest.approx(0.25 * (l1 + l2) + 0.75 * (d1 + d2))


@given(ground=GROUND, source=SENTENCE, options=OPTIONS, data=st.data())
def test_objective_equals_plain_python(ground, source, options, data):
    members = data.draw(st.sets(st.integers(0, COUNT - 1)))
    mask = jnp.array([i in members for i in range(COUNT)])
    found = dips.objective(
        mask, *arguments(ground, source), embeddings=EMBEDDINGS, **options
    )
    expected = in_python(ground, source, **options).components(sorted(members))
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-5, abs=1e-5), name


@given(ground=GROUND, source=SENTENCE, options=OPTIONS)
def test_greedy_equals_plain_python(ground, source, options):
    found = dips.greedy_select(
        *arguments(ground, source), 4, embeddings=EMBEDDINGS, **options
    )
    value = in_python(ground, source, **options).value
    assert found.dtype == jnp.int32
    chosen: list[int] = []
    for index in found.tolist():
        values = {
            other: value([*chosen, other])
            for other in range(COUNT)
            if other not in chosen
        }
        # Smaller differences are below the precision of float32.
        assert values[index] >= max(values.values()) - 1e-5
        chosen.append(index)


@settings(max_examples=20)
@given(ground=GROUND, source=SENTENCE)
def test_other_weights_and_no_embeddings(ground, source):
    weights = {"overlap_weights": (1.0,), "distinct_weights": (0.5, 0, 0, 2.0)}
    found = dips.greedy_select(
        *arguments(ground, source), 3, embeddings=None, lam=0.5, **weights
    )
    value = in_python(ground, source, lam=0.5, mu=(1, 0, 1, 1), **weights).value
    assert found.tolist() == naive.greedy(value, COUNT, 3)


@given(ground=GROUND, source=SENTENCE, options=OPTIONS, data=st.data())
def test_f_is_monotone_and_submodular(ground, source, options, data):
    outside = data.draw(st.integers(0, COUNT - 1))
    rest = [i for i in range(COUNT) if i != outside]
    large = data.draw(st.sets(st.sampled_from(rest)))
    small = data.draw(st.sets(st.sampled_from(sorted(large)))) if large else set()

    def gain(members):
        return total({*members, outside}, ground, source, **options) - total(
            members, ground, source, **options
        )

    scale = 1e-5 * (1 + total(set(range(COUNT)), ground, source, **options))
    assert gain(large) >= -scale
    assert gain(small) >= gain(large) - scale
    assert total(set(), ground, source, **options) == 0


def test_ties_go_to_the_lowest_index():
    ground = [[2, 3], [1, 4, 5], [1, 4, 5], [2, 3], [1, 4, 5], [2, 3]]
    found = dips.greedy_select(
        *arguments(ground, [1, 4]), 6, embeddings=EMBEDDINGS, lam=0.5
    )
    assert found.tolist()[0] == 1
    assert [i for i in found.tolist() if i in (1, 2, 4)] == [1, 2, 4]
    assert [i for i in found.tolist() if i in (0, 3, 5)] == [0, 3, 5]


def test_normalised_components_by_hand():
    """L1, L2, and D1 are divided by their values on the whole set; D2 by roots."""
    found = dips.objective(
        jnp.ones((2,), bool), *arguments([[1, 2, 3], [1, 4]], [1, 2]),
        embeddings=EMBEDDINGS, variant="normalized", lam=0.5, mu=(1.0, 2.0, 3.0, 4.0),
    )  # fmt: skip
    parts = [float(found[name]) for name in ("l1", "l2", "d1", "d2")]
    # Their edit distance is 2 of 5 tokens; the set has 2 members.
    root = math.sqrt(2 + 2 * (1 - 2 / 5)) / math.sqrt(2)
    assert parts == pytest.approx([1, 2, 3, 4 * root])
    half = dips.objective(
        jnp.array([True, False]),
        *arguments([[1, 2, 3], [1, 4]], [1, 2]),
        embeddings=EMBEDDINGS,
        variant="normalized",
        lam=0.5,
    )
    # Shared with the source: 1, 2, and their pair in the first; 1 in the second.
    assert float(half["l1"]) == pytest.approx(math.sqrt(7 / 6) / math.sqrt(9 / 6))
    # 3 + 2/2 + 1/3 n-grams of 4 + 3/2 + 1/3.
    assert float(half["d1"]) == pytest.approx((13 / 3) / (35 / 6))
    assert float(half["d2"]) == pytest.approx(math.sqrt(1.6) / math.sqrt(2))
    # An empty source shares nothing, so those components are left out.
    found = dips.objective(
        jnp.ones((2,), bool),
        *arguments([[1, 2, 3], [1, 4]], []),
        embeddings=EMBEDDINGS,
        variant="normalized",
        lam=0.5,
    )
    parts = [float(found[name]) for name in ("l1", "l2", "d1", "d2")]
    assert parts == pytest.approx([0, 0, 1, root])


class Program:
    """The authors' program on sentences of words, with the scores of whole sets."""

    def __init__(self, ground, source, vectors):
        self.v, self.V = (
            " ".join(map(str, source)),
            [" ".join(map(str, words)) for words in ground],
        )
        self.vectors = {str(i): vector for i, vector in enumerate(vectors)}
        self.norms = (
            self.overlap(self.V),
            self.close(self.V, "kernel"),
            self.distinct(self.V),
            math.sqrt(len(self.V)),
        )

    @staticmethod
    def grams(text, n):
        words = text.split()
        return set(zip(*(words[i:] for i in range(n)), strict=False))

    def overlap(self, chosen, new=None):
        orders = {1: 1 / 3, 2: 1 / 2, 3: 1.0}
        score = 0.0
        for n, weight in orders.items():
            own = self.grams(self.v, n)
            union = {gram for text in chosen for gram in self.grams(text, n)}
            # The program adds the union once for each member.
            score += sum(weight * len(own & union) for _ in chosen)
            if new is not None:
                score += weight * len(own & self.grams(new, n))
        return math.sqrt(score)

    def near(self, text, kind):
        def alike(a, b):
            a, b = self.vectors[a], self.vectors[b]
            if kind == "kernel":
                return math.exp(-float(np.sum((a - b) ** 2)))
            return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

        source = self.v.split()
        return sum(max(alike(a, b) for b in text.split()) for a in source) / len(source)

    def close(self, chosen, kind, new=None):
        total = sum(self.near(text, kind) for text in chosen)
        return math.sqrt(max(total + (0 if new is None else self.near(new, "cos")), 0))

    def distinct(self, chosen):
        text = " ".join(chosen)
        return sum(len(self.grams(text, n)) / n for n in (1, 2, 3))

    def spread(self, chosen, new):
        def ratio(v, x):
            return difflib.SequenceMatcher(None, v.split(), x.split()).ratio()

        base = sum(ratio(v, x) for v in self.V for x in chosen)
        return math.sqrt(base + sum(ratio(v, new) for v in self.v.split()))

    def value(self, texts, new, lam):
        parts = (
            self.overlap(texts, new),
            self.close(texts, "kernel", new),
            self.distinct([*texts, new]),
            self.spread(texts, new),
        )
        l1, l2, d1, d2 = (
            part / norm if norm else 0
            for part, norm in zip(parts, self.norms, strict=True)
        )
        return lam * (l1 + l2) + (1 - lam) * (d1 + d2)


@given(
    ground=st.lists(SENTENCE.filter(len), min_size=COUNT, max_size=COUNT),
    source=SENTENCE.filter(len),
    lam=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
def test_the_program_equals_its_formulas_on_texts(ground, source, lam):
    program = Program(ground, source, EMBEDDINGS.astype(float))
    found = dips_program.selected(
        [tuple(words) for words in ground],
        tuple(source),
        4,
        vectors=EMBEDDINGS.astype(float),
        lam=lam,
    )
    assert len({*found}) == 4
    for place, pick in enumerate(found):
        chosen = [program.V[i] for i in found[:place]]
        values = {
            i: program.value(chosen, program.V[i], lam)
            for i in range(COUNT)
            if i not in found[:place]
        }
        # Rounding decides between equal values.
        assert values[pick] >= max(values.values()) - 1e-9


def test_the_variant_program_selects_on_the_host_without_eos_and_fillers():
    sources = [[3, 3], [1, 2, 3, 1]]
    step = beam_step(sources, fillers=1)
    options = dips.DiPSOptions(variant="program", lam=LAM)
    choose = jax.jit(
        lambda step: dips.choose(
            step, None, None, embeddings=EMBEDDINGS, options=options
        )
    )
    spoken = [tuple(w for w in row if w != EOS) for row in words()[:-1]]
    vectors = EMBEDDINGS.astype(float)
    expected = [
        dips_program.selected(spoken, tuple(s), 3, vectors=vectors, lam=LAM)
        for s in sources
    ]
    assert choose(step).tolist() == expected
    assert expected[0] != expected[1]


def test_unit_vectors_part_words_by_their_angle():
    # The vectors of 1 and 2 are parallel, 3 is orthogonal, and 4 has no vector.
    embeddings = jnp.array([[0.0, 0], [1, 0], [9, 0], [0, 5], [0, 0]])

    def l2(candidate, source):
        found = dips.objective(
            jnp.array([True]), *arguments([candidate], source),
            embeddings=embeddings, lam=1.0, rbf_sigma=1.0,
        )  # fmt: skip
        return float(found["l2"]) ** 2

    assert l2([2], [1]) == pytest.approx(1.0)
    assert l2([3], [1]) == pytest.approx(math.exp(-2))
    assert l2([4], [1]) == 0.0
    assert l2([4], [3, 4]) == pytest.approx(1.0)


@pytest.mark.long
def test_lambda_trades_diversity_for_fidelity_step_by_step():
    """L grows and D falls with lambda on 64 random sets, as in Figure 2."""
    rng = np.random.default_rng(0)
    ground = jnp.asarray(rng.integers(1, VOCAB, (64, 12, WIDTH)))
    lengths = jnp.asarray(rng.integers(2, WIDTH + 1, (64, 12)))
    source = jnp.asarray(rng.integers(1, VOCAB, (64, WIDTH)))

    @functools.partial(jax.jit, static_argnames="lam")
    def parts(lam):
        def row(ground, lengths, source):
            given = (ground, lengths, source, jnp.array(WIDTH))
            options = {"embeddings": EMBEDDINGS, "lam": lam} | PLAIN
            options["variant"] = "normalized"
            chosen = dips.greedy_select(*given, 4, **options)
            mask = jnp.zeros((12,), bool).at[chosen].set(True)
            found = dips.objective(mask, *given, **options)
            return found["l1"] + found["l2"], found["d1"] + found["d2"]

        return [x.mean() for x in jax.vmap(row)(ground, lengths, source)]

    found = np.array([parts(lam) for lam in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)])
    assert (np.diff(found[:, 0]) >= -1e-6).all() and found[-1, 0] > found[0, 0]
    assert (np.diff(found[:, 1]) <= 1e-6).all() and found[-1, 1] < found[0, 1]


# A batch always has seven rows, so all tests of a step share one compilation.
LAM = 0.4
SELECT = jax.jit(lambda step: select(dips, step, embeddings=EMBEDDINGS, lam=LAM))


def in_seven(sources, **options):
    """Returns the selection for the sources, padded with rows of another source."""
    found = SELECT(beam_step([*sources, *[[2, 5]] * (7 - len(sources))], **options))
    return found[: len(sources)].tolist()


def with_end(source):
    """Returns the source with EOS, which counts as a word of it."""
    return [*source, EOS] if source else source


def expected(source, count=7):
    value = in_python(words()[:count], with_end(source), lam=LAM).value
    return naive.greedy(value, count, 3)


def test_select_is_greedy_on_the_words_of_each_row():
    sources = [[3, 3], [1, 2, 3, 1], [4] * 8, [2, 2, 2, 2, 1], [1], [2, 4, 2], []]
    chosen = [expected(source) for source in sources]
    assert len({tuple(row) for row in chosen}) > 1
    assert in_seven(sources) == chosen
    # A row selects the same in another batch, at another place.
    assert in_seven(sources[:2][::-1]) == chosen[:2][::-1]


def test_select_normalises_and_takes_a_batch_of_one():
    found = select(dips, beam_step([[1, 2, 3, 1]]), embeddings=EMBEDDINGS, lam=0.9)
    value = in_python(words(), [1, 2, 3, 1, EOS], lam=0.9).value
    assert found.tolist() == [naive.greedy(value, 7, 3)]


def test_select_waits_for_half_the_source():
    # The output has four tokens: too few for nine, enough for eight.
    assert in_seven([[1] * 9, [1] * 8, [1] * 9]) == [
        [0, 1, 2],
        expected([1] * 8),
        [0, 1, 2],
    ]
    assert expected([1] * 8) != [0, 1, 2]


def test_fillers_are_neither_chosen_nor_part_of_the_ground_set():
    assert in_seven([[1]], fillers=3) == [expected([1], count=4)]
    (found,) = in_seven([[1]], fillers=5)
    assert sorted(found[:2]) == [0, 1]
    assert found[2] == 2


def test_probability_is_the_share_of_selecting_steps():
    batch, other = 400, jnp.array([6, 4, 5], jnp.int32)

    def choose(step, probability):
        rows = step.log_probs.shape[0]
        return set_search.when_due(
            step, lambda *_: jnp.broadcast_to(other, (rows, 3)), probability
        )

    step = beam_step([[1]] * batch)
    chosen = np.array(choose(step, 0.3))
    plain = (chosen == [0, 1, 2]).all(axis=1)
    assert (chosen[~plain] == [6, 4, 5]).all()
    # Within four standard deviations of the binomial distribution.
    assert abs((~plain).sum() - 0.3 * batch) < 4 * math.sqrt(batch * 0.3 * 0.7)
    assert np.array_equal(choose(step, 0.0), [[0, 1, 2]] * batch)
    assert np.array_equal(choose(step, 1.0), [[6, 4, 5]] * batch)
    # The draw depends on the row only, not on its batch.
    for row in np.flatnonzero(plain)[:2], np.flatnonzero(~plain)[:2]:
        some = jax.tree.map(lambda x, row=row: x[row] if x.ndim else x, step)
        assert np.array_equal(choose(some, 0.3), chosen[row])


@pytest.mark.parametrize(
    ("module", "option", "message"),
    [
        (dips, {"lam": 1.5}, "dips: lam=1.5: expected a finite number from 0 to 1."),
        (dips, {"probability": -1}, "probability=-1: .* number from 0 to 1."),
        (dips, {"width": 0}, "width=0: expected a whole number of at least 1."),
        (dips, {"mode": "all"}, "mode='all': expected 'step' or 'final'."),
        (dips, {"mu": (1.0, 1.0, -1.0, 1.0)}, "mu=.* of at least 0."),
        (dips, {"mu": (1.0, 1.0, float("nan"), 1.0)}, "mu=.*: expected .*finite"),
        (dips, {"mu": (1.0, 1.0)}, "mu=.*: expected "),
        (dips, {"overlap_weights": (1.0, -1.0)}, "overlap_weights=.* at least 0."),
        (dips, {"distinct_weights": (-1.0,)}, "distinct_weights=.* at least 0."),
        (dips, {"rbf_sigma": 1e-30}, "rbf_sigma=1e-30: .* of at least 1e-06."),
        (dpp, {"ngram_weights": (float("nan"),)}, "dpp: ngram_weights=.*finite"),
        (dpp, {"quality": -1}, "quality=-1: expected a finite number of at least 0."),
        (ssr, {"probability": 2}, "ssr: probability=2: expected a finite number from"),
    ],
)
def test_options_out_of_range(module, option, message):
    with pytest.raises(UserError, match=message):
        select(module, beam_step([[1]]), **option)


def test_l2_needs_embeddings():
    step = beam_step([[1]])
    with pytest.raises(UserError, match="give `embedding_table`, or set mu"):
        select(dips, step)
    # Without L2 no embeddings are needed.
    shape = jax.eval_shape(lambda: select(dips, step, mu=(1.0, 0.0, 1.0, 1.0)))
    assert (shape.shape, shape.dtype) == ((1, 3), jnp.int32)


def test_memory_at_full_size():
    """k = 10, T = 64, and batch 64 with T5's table need far less than 2 GiB."""
    batch, k, length, vocab, width = 64, 10, 64, 32128, 512
    shape = jax.ShapeDtypeStruct

    def ints(*dims):
        return shape(dims, jnp.int32)

    step = Candidates(
        sequences=ints(batch, 3 * k, length),
        lengths=ints(batch, 3 * k),
        log_probs=shape((batch, 3 * k), jnp.float32),
        parents=ints(batch, 3 * k),
        finished=shape((batch, 3 * k), bool),
        source=ints(batch, length),
        source_lengths=ints(batch),
        step=ints(),
        rng=jax.eval_shape(lambda: jax.random.split(jax.random.key(0), batch)),
        k=k,
    )
    table = shape((vocab, width), jnp.float32)
    chosen = jax.jit(lambda c, e: select(dips, c, embeddings=e))
    memory = chosen.lower(step, table).compile().memory_analysis()
    used = (
        memory.temp_size_in_bytes
        + memory.argument_size_in_bytes
        + memory.output_size_in_bytes
    )
    assert memory.argument_size_in_bytes > 4 * vocab * width
    assert used < 2**29
    # Without parents, each candidate is a prefix without siblings.
    whole = jax.jit(
        jax.vmap(
            lambda c, n, s, m, e: dips.greedy_select(
                c, n, s, m, k, embeddings=e, lam=0.5
            ),
            in_axes=(0, 0, 0, 0, None),
        )
    )
    memory = (
        whole.lower(
            step.sequences, step.lengths, step.source, step.source_lengths, table
        )
        .compile()
        .memory_analysis()
    )
    assert memory.temp_size_in_bytes + memory.argument_size_in_bytes < 2**31
