"""The effect of cycling: PCC's schedules at equal numbers of updates, on HuffPost.

    jaxaug fewshot --config configs/fewshot/cycling.py --data_dir data
    jaxaug fewshot --config configs/fewshot/cycling.py --data_dir data \\
        --encoder minilm --out runs/fewshot/cycling_minilm

The data folder is the same as for pcc_huffpost.py. The first run with MiniLM is slow,
because it encodes 55,000 sentences. The cache folder stores the encodings. Results:
README.md of pcc.
"""

import ml_collections

UPDATES = (1200, 2400, 4800)


def get_config() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict()
    config.dataset = "fewshot/huff"
    config.per_label = 10
    config.seeds = (0, 1, 2, 3, 4)
    config.encoder = "static:minilm"
    config.triplet = {"learning_rate": 5e-4}
    config.methods = tuple(row for updates in UPDATES for row in rows(updates))
    config.tables = tuple(
        {
            "title": f"PCC on HuffPost, {updates} updates",
            "rows": tuple(row["name"] for row in rows(updates)),
            "reference": f"cyclic {updates}",
        }
        for updates in UPDATES
    )
    config.out = "runs/fewshot/cycling"
    return config


def rows(updates: int) -> tuple[dict, ...]:
    """Returns the same paraphrases in different orders, six levels in all."""
    once, twice = updates // 6, updates // 12
    return (
        pcc(f"cyclic {updates}", "cyclic", twice),
        pcc(f"gradual {updates}", "gradual", once),
        pcc(f"inverse {updates}", "inverse", once),
        pcc(f"random {updates}", "random", once),
    )


def pcc(name: str, schedule: str, steps_per_level: int) -> dict:
    """Returns the paraphrases of PCC's authors in some order."""
    return {
        "name": name,
        "source": "released",
        "path": "pcc/aug_huff_train_s{seed}*.txt",
        "schedule": schedule,
        "steps_per_level": steps_per_level,
    }
