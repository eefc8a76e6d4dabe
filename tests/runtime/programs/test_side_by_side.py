"""Batches that are computed at the same time."""

import os
import threading

import jax
import numpy as np
import pytest
from t5x.inference import runner

from tests.runtime.programs.test_inference import STATE, examples, infer_fn


def test_steps_of_a_known_shape_run_at_the_same_time():
    here = threading.get_ident()
    meet = threading.Barrier(2, timeout=30)

    def together():
        meet.wait()  # A single step would wait forever.
        return threading.get_ident()

    with runner.enqueueing(2) as enqueue:
        first = enqueue("a", threading.get_ident)
        others = [enqueue("a", together) for _ in range(2)]
        new = enqueue("b", threading.get_ident)
        assert (first(), new()) == (here, here)
        assert here not in {result() for result in others}


def test_one_thread_is_the_one_that_asks():
    with runner.enqueueing(1) as enqueue:
        results = [enqueue("a", threading.get_ident) for _ in range(3)]
    assert {result() for result in results} == {threading.get_ident()}


def test_an_error_is_raised_where_the_result_is_asked_for():
    with runner.enqueueing(2) as enqueue:
        enqueue("a", lambda: 1)
        result = enqueue("a", lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            result()


@pytest.mark.parametrize(
    ("backend", "devices", "cores", "expected"),
    [("cpu", 1, 2, 2), ("cpu", 1, 64, 4), ("cpu", 1, 1, 1), ("cpu", 2, 8, 1)]
    + [("gpu", 1, 8, 1)],
)
def test_a_thread_for_each_core(monkeypatch, backend, devices, cores, expected):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "device_count", lambda: devices)
    free = set(range(cores))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: free, raising=False)
    small = {"w": np.broadcast_to(np.float32(0), 3_999_999)}
    assert runner.threads_for(small) == expected
    # Large models use the cores, and memory, one step at a time.
    assert runner.threads_for({**small, "b": np.zeros(1)}) == 1


def test_results_are_those_of_one_thread(monkeypatch):
    """Results are in order, use the key of each batch, and trace each shape once."""
    traced = []

    def step(params, batch, rng):
        traced.append(batch["x"].shape)
        return batch["x"], {"u": jax.random.uniform(rng, batch["x"].shape[:1])}

    shuffled = np.random.default_rng(0).permutation(39)
    found = {}
    for number in (1, 3):
        monkeypatch.setattr(runner, "threads_for", lambda _, n=number: n)
        rng = jax.random.PRNGKey(3)
        found[number] = infer_fn(step)(examples(39, shuffled), STATE, rng=rng)
        assert len(traced) == len(set(traced))
        traced.clear()
    assert found[1] == found[3]
    predictions, aux = found[3]
    assert predictions == [(i, [i] * 3) for i in range(39)]
    assert len(set(aux["u"])) > 30
