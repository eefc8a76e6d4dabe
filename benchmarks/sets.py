"""The sets of runs in results/minisgd: their labels in tables, and their commands.

The sets, folders, and mixtures are called `tree` whatever selected their variants.
`SELECTORS` names the selector: `spread` is greedy max-min, and `tree` is the traversal
of Algorithm 3 of Coca et al. (`walk = "rounds"`).
"""

SETS = {
    "sgd": "originals only",
    "eda_6x": "+ five variants by EDA",
    "sgd_familiar": "originals only, `--familiar`",
    "tree_6x_familiar": "+ five by the grammar and `spread`, `--familiar`",
    "tree_6x_consistent": "+ five by the grammar and `spread`, consistency",
    "tree_6x_weight03": "consistency, weight 0.3",
    "tree_6x_weight1": "consistency, weight 1",
    "tree_6x_weight10": "consistency, weight 10",
    "tree_6x_mean1": "consistency, mean, weight 1",
    "tree_6x_weight1_long": "consistency, weight 1, 3,000 steps",
    "tree_6x_long": "+ five by the grammar and `spread`, 3,000 steps",
    "many_16x": "+ fifteen by the grammar and `spread`",
    "many_16x_familiar": "+ fifteen by the grammar and `spread`, `--familiar`",
    "many_16x_likelihood": "+ fifteen by the grammar and `spread`, `--familiar`, "
    "likelihood of N=4",
    "tree_6x_worst": "+ five by the grammar and `spread`, worst wordings",
    "tree_6x_worst_familiar": "+ five by the grammar and `spread`, worst wordings, "
    "`--familiar`",
    "many_16x_worst": "+ fifteen by the grammar and `spread`, worst wordings",
    "many_16x_worst_familiar": "+ fifteen by the grammar and `spread`, worst wordings, "
    "`--familiar`",
    "many_16x_worst_likelihood": "+ fifteen by the grammar and `spread`, worst "
    "wordings, `--familiar`, likelihood of N=4",
    "tree2_6x": "+ five by `grammar_tree.py:0` (`spread`, any probability)",
    "sound5_6x": "+ five by `grammar_tree.py` (`spread`, least probability 0.5)",
    "sound8_6x": "+ five by `grammar_tree.py:0.8` (`spread`)",
    "apertium_6x": "+ five by back-translation by rules",
    "tree_2x": "+ v1 by the grammar and `spread`",
    "tree_4x": "+ v1 to v3 by the grammar and `spread`",
    "tree_6x": "+ five by the grammar and `spread`",
    "aug_6x": "+ five written by hand",
    "sgdx_6x": "+ v1-5 themselves (oracle)",
}
# First digits of the digest of stored variants -> their selector.
SELECTORS = {"cfe8ff9b": "`spread`", "54839714": "`tree`, Jaccard <= 0.95"}
GUARDED = (
    *("sgd", "sgd_familiar", "tree_6x", "tree_6x_familiar", "tree_6x_consistent"),
    *("tree_6x_worst", "tree_6x_worst_familiar", "many_16x", "many_16x_familiar"),
    *("many_16x_likelihood", "many_16x_worst", "many_16x_worst_familiar"),
)
# Pairs of sets, of which the first one should be better.
GAINS = (
    ("tree_6x_familiar", "tree_6x"),
    ("sgd_familiar", "sgd"),
    ("many_16x", "tree_6x"),
    ("many_16x_familiar", "tree_6x_familiar"),
    ("tree_6x_consistent", "tree_6x"),
    ("tree_6x_worst", "tree_6x"),
    ("tree_6x_worst_familiar", "tree_6x_familiar"),
    ("many_16x_worst_familiar", "many_16x_familiar"),
    ("many_16x_likelihood", "many_16x_familiar"),
)
_TRAIN = "python -m t5x.train --gin_file=configs/d3st_aug.gin"
_LONG = "--gin.TRAIN_STEPS=3000 --gin.EVAL_PERIOD=3000"
_CONSISTENCY = (
    f"{_TRAIN} --gin_file=configs/runs/consistency.gin --gin.CONSISTENCY_WEIGHT"
)
# Ends of the names of sets -> commands; "" is for the sets of benchmarks/compare.sh.
COMMANDS = {
    "familiar": "jaxaug robustness RUN --out OUT --familiar",
    "likelihood": "jaxaug robustness RUN --out OUT --familiar --wordings 4 --combine "
    "likelihood",
    "tree_6x_worst": f"{_TRAIN} --gin_file=configs/runs/worst.gin",
    "many_16x_worst": f"{_TRAIN} --gin_file=configs/runs/worst.gin "
    "--gin.MIXTURE_OR_TASK_NAME='d3st_many_16x'",
    "consistent": f"{_CONSISTENCY}=3.0",
    "weight03": f"{_CONSISTENCY}=0.3",
    "weight1": f"{_CONSISTENCY}=1.0",
    "weight10": f"{_CONSISTENCY}=10.0",
    "mean1": f"{_CONSISTENCY}=1.0 --gin.CONSISTENCY_TERM='mean'",
    "weight1_long": f"{_CONSISTENCY}=1.0 {_LONG}",
    "6x_long": f"{_TRAIN} {_LONG}",
    "many_16x": "jaxaug augment --variants 15 --out DATA/variants/many, then "
    f"{_TRAIN} --gin.MIXTURE_OR_TASK_NAME='d3st_many_16x'",
    "tree2_6x": "jaxaug augment --config configs/augment/grammar_tree.py:0 --out "
    f"DATA/variants/tree2, then {_TRAIN} --gin.MIXTURE_OR_TASK_NAME='d3st_tree2_6x'",
    "sound5_6x": "jaxaug augment --out DATA/variants/sound5, then "
    f"{_TRAIN} --gin.MIXTURE_OR_TASK_NAME='d3st_sound5_6x'",
    "sound8_6x": "jaxaug augment --config configs/augment/grammar_tree.py:0.8 --out "
    f"DATA/variants/sound8, then {_TRAIN} --gin.MIXTURE_OR_TASK_NAME='d3st_sound8_6x'",
    "apertium_6x": "jaxaug augment --config configs/augment/apertium.py:5 --out "
    "DATA/apertium, then JAXAUG_VARIANTS_DIR=DATA/apertium benchmarks/compare.sh",
    "": "benchmarks/compare.sh",
}
