"""PCC with your own paraphrases: different samplers, and without the filter.

The level files are made from the few-shot sentences of all seeds:

    C="--config configs/fewshot/samplers.py --data_dir data"
    jaxaug fewshot $C --texts data/levels/huff.txt
    M="--in data/levels/huff.txt --model smollm2"
    jaxaug levels $M --out data/levels/huff_mixed.jsonl
    jaxaug levels $M --out data/levels/huff_top_k_top_p.jsonl --quota top_k_top_p=20
    jaxaug levels $M --out data/levels/huff_sampling.jsonl --quota sampling=4 top_k_top_p=16
    jaxaug levels $M --out data/levels/huff_bottom_k.jsonl --quota bottom_k=20
    jaxaug levels $M --out data/levels/huff_unfiltered.jsonl --implication none --beta -9

The first is the paper's: of 20 paraphrases 4 from bottom-k, 16 from top-k with top-p; the
second its "without bottom-k", the third its "pure sampling" instead of bottom-k. A
row whose file is missing says so. 2,050 sentences with 60 outputs each need a GPU.
"""

import ml_collections

FILES = {
    "4 of bottom-k, 16 of top-k + top-p": "mixed",
    "20 of top-k + top-p": "top_k_top_p",
    "4 of pure sampling, 16 of top-k + top-p": "sampling",
    "20 of bottom-k": "bottom_k",
    "4 of bottom-k, 16 of top-k + top-p, no filter": "unfiltered",
}


def get_config() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict()
    config.dataset = "fewshot/huff"
    config.per_label = 10
    config.seeds = (0, 1, 2, 3, 4)
    config.encoder = "static:minilm"
    config.triplet = {"learning_rate": 5e-4}
    released = pcc("as released", "released", "pcc/aug_huff_train_s{seed}*.txt")
    config.methods = (
        released,
        *(pcc(name, "levels", f"levels/huff_{f}.jsonl") for name, f in FILES.items()),
    )
    config.tables = (
        {
            "title": "PCC cyclic on HuffPost, equal numbers of updates",
            "rows": tuple(method["name"] for method in config.methods),
            "reference": "as released",
        },
    )
    config.out = "runs/fewshot/samplers"
    return config


def pcc(name: str, source: str, path: str) -> dict:
    """Paraphrases of some file in a cyclic curriculum."""
    fields = {"schedule": "cyclic", "optional": source == "levels"}
    return {"name": name, "source": source, "path": path, **fields}
