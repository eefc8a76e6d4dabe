"""Adafactor, compared with NumPy code written from the paper, and with optax."""

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P
from t5x import adafactor
from t5x.adafactor import FactorDim, HParamMap
from t5x.errors import UserError

RATE = 0.05
ROW, COLUMN, BATCH, NONE = (
    FactorDim.ROW, FactorDim.COLUMN, FactorDim.BATCH, FactorDim.NONE,
)  # fmt: skip


def reference(param, grads, rows=(), columns=(), batch=(), **options):
    """Returns parameter, v_row, v_col, v, and m after all gradients, in float64.

    It loops over the indices of the batch axes, unlike the implementation. Each slice
    is a separate parameter.
    """
    if batch:
        moved = [np.moveaxis(np.asarray(x), batch, range(len(batch))) for x in grads]
        stacked = np.moveaxis(np.asarray(param), batch, range(len(batch)))
        assert len(batch) == 1
        rows, columns = (
            [a - sum(b < a for b in batch) for a in x] for x in (rows, columns)
        )
        results = [
            reference(stacked[i], [g[i] for g in moved], rows, columns, **options)
            for i in range(stacked.shape[0])
        ]
        return [
            np.stack(x) if x[0] is not None else None
            for x in zip(*results, strict=True)
        ]
    rate = options.get("rate", RATE)
    param = np.asarray(param, np.float64)
    order = (*rows, *columns)
    # As a matrix: rows x columns.
    height = int(np.prod([param.shape[a] for a in rows], initial=1))
    row_moment = column_moment = moment = momentum = 0.0
    for t, grad in enumerate(grads, start=1 - options.get("step_offset", 0)):
        grad = np.asarray(grad, np.float64)
        # Before the offset every step is like the first one.
        decay = 1 - max(t, 1) ** -options.get("decay_rate", 0.8)
        squared = grad**2 + 1e-30
        if rows:
            matrix = squared.transpose(order).reshape(height, -1)
            row_moment = decay * row_moment + (1 - decay) * matrix.mean(1)
            column_moment = decay * column_moment + (1 - decay) * matrix.mean(0)
            second = np.outer(row_moment, column_moment) / row_moment.mean()
            shape = [param.shape[a] for a in order]
            second = second.reshape(shape).transpose(np.argsort(order))
        else:
            moment = second = decay * moment + (1 - decay) * squared
        update = grad / np.sqrt(second)
        if options.get("clip", 1.0):
            size = np.sqrt(np.mean(update**2))
            update = update / max(1.0, size / options.get("clip", 1.0))
        if options.get("scale", True):
            size = max(np.sqrt(np.mean(param**2)), 1e-3)
            update = update * min(size, options.get("max_scale", np.inf))
        momentum = options.get("beta1", 0.0) * momentum + (
            1 - options.get("beta1", 0.0)
        ) * (rate * update)
        param = (1 - options.get("weight_decay", 0.0)) * param - momentum
    if rows:
        row_moment = row_moment.reshape([param.shape[a] for a in rows])
        column_moment = column_moment.reshape([param.shape[a] for a in columns])
        return param, row_moment, column_moment, None, momentum
    return param, None, None, moment, momentum


def draw(shape, steps=4, seed=0, size=1.0):
    rng = np.random.RandomState(seed)
    param = np.float32(rng.randn(*shape)) * size
    grads = [np.float32(rng.randn(*shape)) * 10**s for s in (0, 1, -1, 0)]
    return param, grads[:steps]


def run(optimizer, params, grads_of_steps, rate=RATE):
    optimizer = optimizer.create(jax.tree.map(jnp.asarray, params))
    update = jax.jit(lambda o, g, r: o.apply_gradient(g, learning_rate=r))
    for grads in grads_of_steps:
        optimizer = update(optimizer, grads, rate)
    assert int(optimizer.state.step) == len(grads_of_steps)
    return optimizer


def run_one(param, grads, path="w", rate=RATE, axes=None, **options):
    optimizer = adafactor.Adafactor(**options)
    if axes is not None:
        optimizer.set_param_axes({path: axes})
    result = run(optimizer, {path: param}, [{path: g} for g in grads], rate)
    return result.target[path], result.state.param_states[path]


def check(found, expected):
    param, state = found
    wanted_param, v_row, v_col, v, _ = expected
    np.testing.assert_allclose(param, wanted_param, rtol=2e-5, atol=1e-6)
    for name, wanted in (("v_row", v_row), ("v_col", v_col), ("v", v)):
        array = getattr(state, name)
        assert array.dtype == jnp.float32
        if wanted is None:
            np.testing.assert_array_equal(array, np.zeros((1,)))
        else:
            np.testing.assert_allclose(array, wanted, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (7,), (127, 130)])
def test_scalars_vectors_and_small_matrices_are_not_factored(shape):
    param, grads = draw(shape)
    check(run_one(param, grads), reference(param, grads))


@pytest.mark.parametrize("shape", [(128, 160), (160, 128), (128, 128)])
def test_matrix_is_factored_with_the_larger_axis_as_columns(shape):
    param, grads = draw(shape)
    columns = (0,) if shape[0] > shape[1] else (1,)
    rows = (1 - columns[0],)
    found = run_one(param, grads)
    check(found, reference(param, grads, rows, columns))
    assert found[1].v_row.shape == (min(shape),)
    assert found[1].v_col.shape == (max(shape),)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"beta1": 0.9}, {"beta1": 0.9}),
        ({"clipping_threshold": None}, {"clip": None}),
        ({"clipping_threshold": 0.5}, {"clip": 0.5}),
        ({"multiply_by_parameter_scale": False}, {"scale": False}),
        ({"max_parameter_scale": 0.25}, {"max_scale": 0.25}),
        ({"decay_rate": 0.5}, {"decay_rate": 0.5}),
        ({"step_offset": -3}, {"step_offset": -3}),
        ({"step_offset": 2}, {"step_offset": 2}),
        ({"step_offset": 1000}, {"step_offset": 1000}),
        ({"weight_decay_rate": 0.1}, {"weight_decay": 0.1}),
        ({"weight_decay_rate_lr_exponent": 2.0}, {"weight_decay": RATE**2}),
        (
            {"weight_decay_rate": 0.5, "weight_decay_rate_lr_exponent": 1.0},
            {"weight_decay": 0.5 * RATE},
        ),
    ],
)
def test_options(options, expected):
    for shape, rows, columns in (((9,), (), ()), ((6, 4), (1,), (0,))):
        param, grads = draw(shape)
        found = run_one(param, grads, min_dim_size_to_factor=4, **options)
        wanted = reference(param, grads, rows, columns, **expected)
        check(found, wanted)
        if "beta1" in options:
            np.testing.assert_allclose(found[1].m, wanted[-1], rtol=2e-5, atol=1e-7)
        else:
            assert found[1].m.shape == (1,)


def test_small_parameters_move_by_epsilon2():
    param, grads = draw((5,), steps=1, size=0.0)
    found, _ = run_one(param, grads)
    np.testing.assert_allclose(found, -RATE * 1e-3 * np.sign(grads[0]), rtol=1e-5)


def test_factored_false_keeps_the_full_moment():
    param, grads = draw((128, 128))
    check(run_one(param, grads, factored=False), reference(param, grads))


@pytest.mark.parametrize(
    ("axes", "shape", "layout"),
    [
        (P("embed", "heads", "kv"), (6, 3, 4), {"rows": (0,), "columns": (1, 2)}),
        (P("joined_kv", "layers", "embed"), (5, 2, 6),
         {"rows": (2,), "columns": (0,), "batch": (1,)}),
        (P("layers", "embed"), (3, 8), {"batch": (0,)}),
        (P("layers", "heads", "relpos_buckets"), (2, 3, 8), {"batch": (0,)}),
    ],
)  # fmt: skip
def test_logical_rules(axes, shape, layout):
    param, grads = draw(shape)
    rules = adafactor.standard_logical_factor_rules()
    param_found, state = run_one(param, grads, axes=axes, logical_factor_rules=rules)
    wanted = reference(param, grads, **layout)
    batch = layout.get("batch", ())
    stacked = np.moveaxis(np.asarray(param_found), batch, range(len(batch)))
    np.testing.assert_allclose(stacked, wanted[0], rtol=2e-5, atol=1e-6)
    if layout.get("rows"):
        row_sizes = [shape[a] for a in sorted((*layout["rows"], *batch))]
        assert list(state.v_row.shape) == row_sizes
        assert state.v.shape == (1,)
    else:
        assert state.v.shape == shape


def test_matrix_without_batch_axis_ignores_the_rule():
    param, grads = draw((130, 140))
    rules = {"a": "none", "b": "none"}
    found = run_one(param, grads, axes=P("a", "b"), logical_factor_rules=rules)
    check(found, reference(param, grads, (0,), (1,)))


def test_global_norm_clipping_is_over_all_gradients():
    params = {"a": np.array([3.0], np.float32), "b": np.array([1.0, 2.0], np.float32)}
    grads = {"a": np.array([6.0], np.float32), "b": np.array([0.0, 8.0], np.float32)}
    # With the moment of earlier steps, the size of a gradient matters.
    steps = [jax.tree.map(lambda g: g / 100 + 1e-3, grads), grads]
    clipped = jax.tree.map(lambda g: g / 10, grads)
    plain = adafactor.Adafactor(clipping_threshold=None)
    clipping = adafactor.Adafactor(
        clipping_threshold=None, global_norm_clip_threshold=1.0
    )
    found = run(clipping, params, steps)
    wanted = run(plain, params, [steps[0], clipped])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
        found.state_dict(),
        wanted.state_dict(),
    )
    unclipped = run(plain, params, steps)
    assert abs(float((unclipped.target["a"] - found.target["a"])[0])) > 5e-4


def test_nan_updates_are_skipped_by_element():
    params = {"a": np.ones(3, np.float32), "b": np.ones(2, np.float32)}
    grads = {"a": np.array([1, np.nan, 2], np.float32), "b": np.ones(2, np.float32)}
    options = {"clipping_threshold": None, "multiply_by_parameter_scale": False}
    optimizer = adafactor.Adafactor(skip_nan_updates=True, **options)
    found = run(optimizer, params, [grads])
    assert found.target["a"].tolist() == pytest.approx([0.95, 1.0, 0.95])
    assert found.state.param_states["a"].v.tolist() == [1.0, 0.0, 4.0]
    assert found.target["b"].tolist() == pytest.approx([0.95, 0.95])
    spoiled = run(adafactor.Adafactor(**options), params, [grads])
    assert np.isnan(spoiled.target["a"]).tolist() == [False, True, False]


def test_types():
    param, grads = draw((4,))
    param = jnp.asarray(param, jnp.bfloat16)
    grads = [jnp.asarray(g, jnp.bfloat16) for g in grads]
    found, state = run_one(param, grads, beta1=0.9, dtype_momentum=jnp.bfloat16)
    assert found.dtype == state.m.dtype == jnp.bfloat16
    assert state.v.dtype == jnp.float32
    wanted = reference(np.asarray(param, np.float64), grads, beta1=0.9)[0]
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=2e-2)


@pytest.mark.parametrize("shape", [(200,), (150, 128), (20, 30)])
def test_equals_optax(shape):
    param, grads = draw(shape)
    other = optax.adafactor(RATE)
    state, expected = other.init(param), jnp.asarray(param)
    for grad in grads:
        updates, state = other.update(grad, state, expected)
        expected = optax.apply_updates(expected, updates)
    found, _ = run_one(param, grads)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(np.asarray(found) - param).max() > 1e-2


def test_learning_rate_of_the_definition_and_of_the_call():
    param, grads = draw((3,), steps=1)
    params = {"w": jnp.asarray(param)}
    optimizer = adafactor.Adafactor(0.2).create(params)
    own = optimizer.apply_gradient({"w": grads[0]})
    check(
        (own.target["w"], own.state.param_states["w"]),
        reference(param, grads, rate=0.2),
    )
    with pytest.raises(UserError, match="Adafactor: no learning rate provided"):
        adafactor.Adafactor().create(params).apply_gradient({"w": grads[0]})


def test_hparam_map_by_path():
    rules = HParamMap([("embed", (ROW, COLUMN, NONE)), (".*", None)])
    params = {"x": {"embed": 1, "y": 2}}
    assert rules(params) == {"x": {"embed": (ROW, COLUMN, NONE), "y": None}}
    with pytest.raises(KeyError, match="No factor rule found for parameter: x/y"):
        HParamMap([("z", None)])["x/y"]

    param, grads = draw((5,))
    scaled = HParamMap([("norm", False), (".*", True)])
    for path, scale in (("norm/scale", False), ("dense/kernel", True)):
        outer, inner = path.split("/")
        optimizer = adafactor.Adafactor(multiply_by_parameter_scale=scaled)
        nested = [{outer: {inner: g}} for g in grads]
        found = run(optimizer, {outer: {inner: param}}, nested)
        found = (found.target[outer][inner], found.state.param_states[outer][inner])
        check(found, reference(param, grads, scale=scale))


def test_factor_map_by_path():
    param, grads = draw((4, 3, 5))
    rules = HParamMap([("w", (COLUMN, BATCH, ROW))])
    found, state = run_one(param, grads, factor_map=rules)
    wanted = reference(param, grads, rows=(2,), columns=(0,), batch=(1,))
    np.testing.assert_allclose(
        np.moveaxis(found, 1, 0), wanted[0], rtol=2e-5, atol=1e-6
    )
    np.testing.assert_allclose(state.v_row, wanted[1], rtol=1e-5)
    np.testing.assert_allclose(state.v_col, wanted[2].T, rtol=1e-5)


def test_logical_axes_of_the_state():
    params = {"big": jnp.ones((128, 130)), "small": jnp.ones((4,))}
    axes = {"big": P("embed", "mlp"), "small": P("embed")}
    for beta1 in (None, 0.9):
        optimizer = adafactor.Adafactor(beta1=beta1).create(params)
        derived = optimizer.optimizer_def.derive_logical_axes(optimizer, axes)
        assert derived.target == axes
        assert derived.state.step is None
        big, small = (derived.state.param_states[k] for k in ("big", "small"))
        assert (big.v_row, big.v_col, big.v) == (None, None, None)
        assert (small.v_row, small.v_col, small.v) == (None, None, P("embed"))
        assert big.m == (None if beta1 is None else P("embed", "mlp"))
        assert derived.state_dict()["state"]["param_states"]["small"]["v"] == P("embed")


def test_frozen_parameters_and_state_dict_round_trip():
    params = flax.core.freeze({"a": {"b": jnp.ones((3,))}})
    optimizer = adafactor.Adafactor(beta1=0.5)
    state = run(optimizer, params, [flax.core.freeze({"a": {"b": jnp.ones((3,))}})])
    assert isinstance(state.target, flax.core.FrozenDict)
    saved = state.state_dict()
    assert set(saved["state"]["param_states"]["a"]["b"]) == {"v_row", "v_col", "v", "m"}
    restored = optimizer.create(params).restore_state(saved)
    assert jax.tree.structure(restored) == jax.tree.structure(state)
    jax.tree.map(np.testing.assert_array_equal, restored, state)


def test_equality_and_hash_survive_new_axes():
    rules = adafactor.standard_logical_factor_rules()
    one, other = (adafactor.Adafactor(0.1, logical_factor_rules=rules) for _ in "ab")
    assert one == other and hash(one) == hash(other)
    before = hash(one)
    one.set_param_axes({"w": P("embed")})
    assert hash(one) == before
    assert one != other and one != adafactor.Adafactor(0.2)


def test_standard_rules_and_names():
    rules = adafactor.standard_logical_factor_rules()
    assert rules["vocab"] is COLUMN and rules["embed"] is ROW
    assert rules["layers"] is rules["stack"] is BATCH
    assert rules["relpos_buckets"] is rules["layer_norm_scale"] is NONE
    assert len(rules) == 15
    assert adafactor.factor_name_to_factordim("Unfactorized") is NONE
    assert adafactor.factor_name_to_factordim("col") is COLUMN
    assert adafactor.factor_name_to_factordim(ROW) is ROW
    with pytest.raises(UserError, match="Unknown factor role 'rows': use one of row, "):
        adafactor.factor_name_to_factordim("rows")


def test_errors():
    with pytest.raises(ValueError, match="factored is False but factorization rules"):
        adafactor.Adafactor(factored=False, factor_map=HParamMap([]))
    with pytest.raises(TypeError, match="`multiply_by_parameter_scale` must be either"):
        adafactor.Adafactor(multiply_by_parameter_scale="yes")
    with pytest.raises(TypeError, match="`factor_map` must be either None or `HParamM"):
        adafactor.Adafactor(factor_map={"a": (ROW,)})
    cube = {"w": jnp.ones((2, 3, 4))}
    with pytest.raises(
        ValueError, match=r"explicit factorization rule: w, \(2, 3, 4\)"
    ):
        adafactor.Adafactor().create(cube)
    for rule, text in (
        ((ROW, COLUMN), "has incorrect rank for param of rank 3: w"),
        ((ROW, NONE, NONE), "needs both ROW and COLUMN, or neither: w"),
    ):
        with pytest.raises(ValueError, match=text):
            adafactor.Adafactor(factor_map=HParamMap([("w", rule)])).create(cube)
    optimizer = adafactor.Adafactor(
        logical_factor_rules={"r": "row", "c": "col", "n": "none"}
    )
    with pytest.raises(
        UserError, match=r"no role for axis 'x' of parameter w \('x',\)"
    ):
        optimizer.set_param_axes({"w": P("x")})
    with pytest.raises(UserError, match="Incomplete adafactor spec .* of parameter w"):
        optimizer.set_param_axes({"w": P("r", "c", "n")})
