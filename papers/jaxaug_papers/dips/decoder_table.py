r"""Makes tables of the outputs of every decoder on real text, for the docs.

    python -m jaxaug_papers.dips.decoder_table --data_dir SGD --text_dir TEXT \
        --work_dir WORK

The program trains a small T5 from scratch on real paraphrases:

- paraphrases of Persona-Chat traits that the authors of PCC released, with a BLEURT of
  at least 0.5;
- rewordings of SGD-X for the training and development schemas.

Then `jaxaug paraphrase` rewords 50 slot and intent descriptions of the test schema and
50 persona sentences of the ConvAI2 validation set. None of them are training inputs.
Each decoder has five outputs, greedy has one.

The program writes to WORK: `decoders.md` (diversity, similarity, and sample outputs),
and a page with all outputs of each set. An existing model in WORK is reused; `--model`
names another one.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from jaxaug.core.text import clean
from jaxaug.data.schema import read_schema
from jaxaug.metrics import diversity, similarity
from jaxaug.paraphrase.run import paraphrase
from jaxaug.paraphrase.samplers import SAMPLERS
from jaxaug_papers.shared.outputs import ORDERS, head, mean, number, outputs_of, row

LEAST_BLEURT = 0.5
INPUTS, OUTPUTS = 50, 5
SAMPLE = 2  # Inputs per set, and outputs per decoder, in `decoders.md`.
VOCABULARY_SIZE = 3000
PERSONA = re.compile(r"\d+ your persona: (.*)")
HEAD = """Made by

    python -m jaxaug_papers.dips.decoder_table --data_dir SGD --text_dir TEXT \\
        --work_dir WORK

with {model}, seed 0, five outputs from each decoder at its defaults, and at most 32
tokens. Greedy has one output, so its distinct-n is computed on single texts. {note}
"""
LEGEND = """Values are means over the inputs. distinct-n: distinct n-grams divided by
all n-grams of the outputs for an input. self-BLEU: each output against the others;
lower is more diverse. BLEU and Jaccard: similarity to the input. copies: outputs equal
to the input.
The inputs are quoted from SGD (CC BY-SA 4.0) and from ConvAI2 / Persona-Chat.
"""
NAMES = {"schema": "schema descriptions", "persona": "persona sentences"}


def descriptions(schema_path: Path) -> list[str]:
    """Returns the distinct descriptions of slots and intents, in order."""
    return list(dict.fromkeys(_ordered(schema_path)))


def persona_sentences(text_dir: Path) -> list[str]:
    path = text_dir / "personachat" / "valid_self_original_no_cands.txt"
    matches = map(PERSONA.match, path.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys(clean(m[1], True) for m in matches if m))


def training_pairs(data_dir: Path, text_dir: Path) -> list[tuple[str, str]]:
    """Returns the (input, paraphrase) pairs whose inputs are not test inputs."""
    held_out = set(persona_sentences(text_dir))
    pairs: dict[tuple[str, str], None] = {}
    path = text_dir / "pcc" / "persona_paraphrases.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        source = clean(record["trait"], True)
        for candidate in record["paraphrases"]:
            text = clean(candidate["text"], True)
            score = candidate["score"]
            if score is None or score < LEAST_BLEURT or source in held_out:
                continue
            if text and text.rstrip(" .") != source.rstrip(" ."):
                pairs[source, text] = None
    for split in ("train", "dev"):
        original = _ordered(data_dir / split / "schema.json")
        for variant in sorted((data_dir / "sgd_x" / "data").glob("v*")):
            reworded = _ordered(variant / split / "schema.json")
            for pair in zip(original, reworded, strict=True):
                if pair[0] != pair[1]:
                    pairs[pair] = None
    found = list(pairs)
    random.Random(0).shuffle(found)  # Training shuffles only within a buffer.
    return found


def _ordered(schema_path: Path) -> list[str]:
    return [
        clean(item.description, True)
        for service in read_schema(schema_path).services
        for part in (service.slots, service.intents)
        for item in part
    ]


def train(options: argparse.Namespace, work: Path) -> Path:
    """Trains a model and returns its folder."""
    model_dir = work / "model"
    pairs = training_pairs(options.data_dir, options.text_dir)
    (work / "real.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(text for pair in pairs for text in pair),
        model_prefix=str(work / "pieces"),
        vocab_size=VOCABULARY_SIZE,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    bindings = {
        "TASK": "'paraphrase_real'",
        "EVAL_TASK": "'paraphrase_real'",
        "TRAIN_STEPS": options.steps,
        "EVAL_PERIOD": options.steps // 4,
        "BATCH_SIZE": 64,
        "MODEL_DIR": f"'{model_dir}'",
    }
    print(f"{len(pairs)} pairs, {options.steps} steps", flush=True)
    subprocess.run(
        [sys.executable, "-m", "t5x.train", "--gin_file=configs/paraphrase_minisgd.gin"]
        + [f"--gin.{name}={value}" for name, value in bindings.items()],
        check=True,
        # Exit status 75 marks an interrupted run.
        env=os.environ | {"T5X_STOPPED_STATUS": "75"},
    )
    return model_dir


def figures(inputs: Sequence[str], outputs: Sequence[Sequence[str]]) -> list[str]:
    """Returns means over the inputs, in the order of the columns of the table."""
    pairs = [(s, t) for s, texts in zip(inputs, outputs, strict=True) for t in texts]
    bleu = mean(100 * similarity.bleu(text, source) for source, text in pairs)
    jaccard = mean(similarity.jaccard(text, source) for source, text in pairs)
    return [
        *(
            number(mean(diversity.distinct(t, n) for t in outputs), ".3f")
            for n in ORDERS
        ),
        number(mean(diversity.self_bleu(texts) for texts in outputs), ".1f"),
        number(bleu, ".1f"),
        number(jaccard, ".3f"),
        str(sum(text == source for source, text in pairs)),
    ]


def shown(
    inputs: Sequence[str], outputs: dict[str, list[list[str]]], count: int
) -> list[str]:
    """Returns a table for every input with the first outputs of each decoder."""
    lines = []
    for index, source in enumerate(inputs):
        lines += [f"**{index + 1}. {source}**", ""]
        lines += head(["decoder", *map(str, range(1, count + 1))])
        for name, groups in outputs.items():
            texts = list(groups[index])[:count]
            lines += [row([name, *texts, *[""] * (count - len(texts))])]
        lines += [""]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--text_dir", type=Path, required=True)
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--model", help="of `jaxaug paraphrase`, instead of training")
    parser.add_argument("--note", default="", help="a line for the head of the page")
    options = parser.parse_args()
    work = options.work_dir
    work.mkdir(parents=True, exist_ok=True)

    known = set(descriptions(options.data_dir / "train" / "schema.json"))
    known |= set(descriptions(options.data_dir / "dev" / "schema.json"))
    rng = random.Random(0)
    candidates = descriptions(options.data_dir / "test" / "schema.json")
    sets = {
        "schema": rng.sample([t for t in candidates if t not in known], INPUTS),
        "persona": rng.sample(persona_sentences(options.text_dir), INPUTS),
    }
    model = options.model or str(work / "model")
    # Training and the trained model read data and vocabulary from these folders.
    os.environ |= {
        "JAXAUG_DATA_DIR": str(options.data_dir),
        "JAXAUG_PARAPHRASES": str(work / "real.tsv"),
        "JAXAUG_VOCABULARY": str(work / "pieces.model"),
    }
    if not options.model and not (work / "model" / "config.gin").exists():
        train(options, work)

    columns = ["decoder", *(f"distinct-{n}" for n in ORDERS), "self-BLEU"]
    columns += ["BLEU to input", "Jaccard to input", "copies"]
    named = options.model or (
        "the T5 of `configs/paraphrase_minisgd.gin`, trained from nothing on real "
        f"paraphrases for {options.steps:,} steps"
    )
    head_text = HEAD.format(model=named, note=options.note)
    lines = [f"# Decoders on real text\n\n{head_text}\n{LEGEND}"]
    for name, inputs in sets.items():
        (work / f"{name}.txt").write_text("\n".join(inputs) + "\n")
        outputs = {}
        for sampler, entry in SAMPLERS.items():
            if sampler == "prior":  # Needs a model with a latent vector.
                continue
            path = work / f"{name}-{sampler}.jsonl"
            num = 1 if entry.single else OUTPUTS
            paraphrase(
                work / f"{name}.txt", path, model=model, sampler=sampler, num=num,
                max_length=32,
            )  # fmt: skip
            outputs[sampler] = outputs_of(path)
        title = f"{INPUTS} {NAMES[name]}"
        lines += [f"## {title}", "", *head(columns)]
        lines += [row([s, *figures(inputs, texts)]) for s, texts in outputs.items()]
        lines += ["", *shown(inputs[:SAMPLE], outputs, SAMPLE)]
        whole = [f"# Outputs of every decoder: {title}", "", head_text, ""]
        text = "\n".join([*whole, *shown(inputs, outputs, OUTPUTS)])
        (work / f"decoders_{name}.md").write_text(text)
    (work / "decoders.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
