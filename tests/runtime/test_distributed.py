"""Helpers for runs of several processes; the other processes are simulated."""

import numpy as np
import pytest
from t5x import distributed, gin_utils
from t5x.errors import UserError


@pytest.fixture
def of_three(monkeypatch):
    """Returns the failures that the three processes report."""

    def play(*fine):
        monkeypatch.setattr(distributed.jax, "process_count", lambda: 3)
        monkeypatch.setattr(
            distributed.multihost_utils, "process_allgather", lambda x: np.array(fine)
        )

    return play


def test_all_fine(of_three):
    of_three(1, 1, 1)
    distributed.raise_if_any_failed(None)


def test_the_failure_of_another_process_is_one_message(of_three):
    of_three(1, 0, 1)
    with pytest.raises(RuntimeError) as caught:
        distributed.raise_if_any_failed(None)
    assert gin_utils.user_message(caught.value) == "Process [1] failed; see its log."


def test_the_own_failure_is_raised_as_it_is(of_three):
    of_three(1, 0, 0)
    error = UserError("mine")
    with pytest.raises(UserError, match="^mine$"):
        distributed.raise_if_any_failed(error)
