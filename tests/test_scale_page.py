"""docs/launch.md shows the output of its programs."""

import importlib
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).resolve().parent.parent
TINY = {
    "vocab_size": 64, "emb_dim": 8, "num_heads": 2, "head_dim": 4, "mlp_dim": 16,
    "num_encoder_layers": 1, "num_decoder_layers": 1,
}  # fmt: skip


@pytest.fixture
def program(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module
    sys.modules.pop("scale", None)


def test_the_tables_of_the_page_equal_the_program(program):
    plan = program("scale")
    page = (ROOT / "docs" / "launch.md").read_text(encoding="utf-8")
    tables = {name: plan.TABLES[name]() for name in plan.ON_PAGE}
    for name, made in tables.items():
        assert f"<!-- {name}: scale.py -->\n{made}\n<!-- end -->" in page, name
    assert plan.with_tables(page, tables) == page
    with pytest.raises(SystemExit, match="no place for the table 'costing'"):
        plan.with_tables("", {"costing": "|"})


def test_the_arithmetic(program, monkeypatch):
    plan = program("scale")
    # 2 x 3 operations per weight and token, plus attention and the output table.
    layers = plan.parameters() - plan.EMB * plan.VOCABULARY * 2
    least = 6 * layers * plan.TARGET_TOKENS
    assert least < plan.operations_of_row() < 8 * layers * plan.SOURCE_TOKENS
    assert plan.step_seconds(2048) == pytest.approx(2 * plan.step_seconds(1024))
    assert plan.hosts() == 256
    # Young: at the best period, stalls cost as much as lost work.
    period, lost = plan.lost_share(8)
    assert plan.VALUES["stall"] / period == pytest.approx(period / 2 / (8 * 3600))
    for other in (0.8 * period, 1.25 * period):
        monkeypatch.setattr(plan.math, "sqrt", lambda x, other=other: other)
        assert plan.lost_share(8)[1] > lost
        monkeypatch.undo()
    assert [plan.short(x) for x in (11.4e9, 118167, 7168, 0.0891)] == [
        "11.4 G",
        "118 k",
        "7,168",
        "0.0891",
    ]


def test_sizes_come_from_the_gin_files(program):
    plan = scale = program("scale")
    xl = scale.dims_of("xl")
    assert (xl["emb_dim"], xl["mlp_dim"], xl["num_encoder_layers"]) == (
        plan.EMB,
        plan.MLP,
        plan.LAYERS,
    )
    assert xl["num_heads"] * xl["head_dim"] == plan.ATTENTION
    assert xl["vocab_size"] == plan.VOCABULARY == scale.dims_of("small")["vocab_size"]
    assert scale.dims_of("base")["num_heads"] == 12


def test_memory_of_a_tiny_step(program):
    scale = program("scale")
    plan = scale.Plan(TINY, data=1, model=1, rows=2, lengths=(32, 16), remat="full")
    found = scale.memory(plan, jax.devices()[:1])
    layer = 4 * 8 * 8 + 3 * 8 * 16
    weights = layer + (layer + 4 * 8 * 8) + 2 * 64 * 8
    # Norms and position biases are small.
    assert weights < found.parameters < 1.5 * weights
    # The second moments have full size, because the matrices are too small to factor.
    assert 4 * found.parameters < found.state <= 8 * found.parameters + 64
    assert found.batch == 4 * 2 * (32 + 3 * 16)
    # At least the gradients.
    assert found.temporary > 4 * found.parameters
    assert found.seconds > 0
