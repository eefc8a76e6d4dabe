"""Mixtures that follow a schedule: the rates of tasks by training step."""

import pytest

from jaxaug.core.errors import UserError
from jaxaug.curriculum import mixture, schedule
from jaxaug.feed import sets


class Empty(sets.Task):
    def token_cache(self, split):
        raise NotImplementedError

    fields = token_cache


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Makes tasks and a mixture known."""
    monkeypatch.setattr(sets, "_SETS", {})
    monkeypatch.setattr(sets, "_PROVIDERS", [])
    names = [f"{name}{short}" for name in "ab" for short in ("", "_short2", "_short5")]
    for name in (*names, "c", "level0", "level1", "level2"):
        sets.add(Empty(name, ["train"], None))
    sets.add_mixture("both", {"b": 3.0, "a": 1.0})


def test_stages_have_the_rates_of_their_levels():
    stages = schedule.staged((4, 8), ((1, 0), (1, 1)))
    found = mixture.level_mixture(["level1", ["both"]], stages)
    assert [task.name for task in found.tasks] == ["a", "b", "level1"]
    assert found.rates == {"level1": 1.0, "a": 1.0, "b": 3.0}
    assert found.stages == [(4, (0, 0, 1)), (8, (0.125, 0.375, 0.5))]


def test_wrong_levels_are_refused():
    names = ["level0", "level1", "level2"]
    stages = schedule.gradual(1, levels=2)
    with pytest.raises(
        UserError, match=r"2 levels of tasks, the .* weighs 3 \(0, 1, 2"
    ):
        mixture.level_mixture(names[:2], stages)
    with pytest.raises(UserError, match="'level0' is in levels 0 and 2"):
        mixture.level_mixture([*names[:2], names[:1]], stages)
    with pytest.raises(UserError, match="'level9' is no task .* did you mean 'level"):
        mixture.level_mixture([*names[:2], "level9"], stages)


def test_a_prompt_curriculum_takes_the_companions_of_each_task():
    found = mixture.prompt_curriculum(
        "both",
        total_steps=30,
        stage_ends=(0.25, 0.5),
        stage_weights=((0.5, 0, 0, 0.5), (0, 1, 0, 0), (0, 0, 1, 0)),
        beside="c",
    )
    assert found.name == "both_prompt_curriculum"
    rates = [
        (
            stage.end,
            {t.name: r for t, r in zip(found.tasks, stage.rates, strict=True) if r},
        )
        for stage in found.stages
    ]
    assert rates == [
        (8, {"a_short2": 0.125, "b_short2": 0.375, "c": 0.5}),
        (15, {"a_short5": 0.25, "b_short5": 0.75}),
        (30, {"a": 0.25, "b": 0.75}),
    ]
    with pytest.raises(UserError, match="'c_short2' is no task"):
        mixture.prompt_curriculum("c", total_steps=1)
