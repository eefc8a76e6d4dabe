"""Evaluators that are built during training."""

import threading

import pytest
from t5x.errors import UserError
from t5x.inference.evaluator import BackgroundEvaluator


class Evaluator:
    closed = False

    def close(self):
        self.closed = True


def test_the_thread_starts_after_the_first_step():
    built = threading.Event()

    def build():
        built.set()
        return Evaluator()

    background = BackgroundEvaluator(build)
    before = background.before_step(lambda step: step == 9)
    assert not before(7)
    assert not built.wait(0.01)
    assert not before(8)
    assert built.wait(10)
    assert before(9)  # The caller's condition is still checked.
    evaluator = background.join()
    assert background.join() is evaluator
    with background:
        assert not evaluator.closed
    assert evaluator.closed


def test_an_evaluation_builds_it_where_no_step_did():
    evaluator = Evaluator()
    assert BackgroundEvaluator(lambda: evaluator).join() is evaluator
    assert BackgroundEvaluator(lambda: None).join() is None


def test_an_error_stops_the_next_step_and_the_evaluation():
    error = UserError("no such split")

    def build():
        raise error

    background = BackgroundEvaluator(build)
    assert background.start().exception() is error
    before = background.before_step(lambda step: False)
    for ask in (lambda: before(0), background.join, background.check):
        with pytest.raises(UserError) as raised:
            ask()
        assert raised.value is error


def test_a_run_that_fails_does_not_wait():
    free = threading.Event()
    background = BackgroundEvaluator(free.wait)
    built = background.start()
    with pytest.raises(UserError, match="full"), background:
        raise UserError("the disk is full")
    assert not built.done()
    free.set()
