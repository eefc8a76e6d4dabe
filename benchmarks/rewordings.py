"""Checks and packs the corpus of rewordings, `jaxaug/data/rewordings.jsonl.xz`.

    python benchmarks/rewordings.py PIECE.jsonl ... [--data_dir SGD] [--texts FILE ...]

Records whose text or rewording stands in an evaluation set, or resembles one, are left
out, so that results there stay clean: equal texts, and texts of six or more different
words with a Jaccard similarity above 0.8. The evaluation sets are
MiniSGD's dev and test schemas with all variants, and every schema of SGD and SGD-X in
`--data_dir`. `--texts` adds the strings of JSON files and JSON lines, such as the data
of the wheel `bfcl-eval`. The program prints the table of docs/rewordings.md.
"""

import argparse
import json
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jaxaug.core.errors import UserError
from jaxaug.data import minisgd, rewordings
from jaxaug.data.rewordings import Record

LEAST_WORDS, MOST_ALIKE = 6, 0.8


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a text in lower case, without punctuation."""
    return tuple(re.sub(r"\W+", " ", text.lower()).split())


class Seen:
    """Texts of evaluation sets, to be kept out of the corpus."""

    def __init__(self, texts: Iterable[str]):
        self._exact = {words(text) for text in texts} - {()}
        self._by_word: dict[str, list[frozenset[str]]] = defaultdict(list)
        for one in {frozenset(text) for text in self._exact}:
            if len(one) >= LEAST_WORDS:
                for word in one:
                    self._by_word[word].append(one)

    def __contains__(self, text: str) -> bool:
        own = words(text)
        if len(own) > 2 and own in self._exact:
            return True
        bag = frozenset(own)
        if len(bag) < LEAST_WORDS:
            return False
        shared: Counter[frozenset[str]] = Counter()
        for word in bag:
            shared.update(self._by_word.get(word, ()))
        return any(
            n / (len(bag) + len(other) - n) > MOST_ALIKE for other, n in shared.items()
        )


def strings(value: Any) -> Iterator[str]:
    """Yields all texts in a JSON value, not its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def evaluation_texts(data_dir: Path | None, files: Sequence[Path]) -> Iterator[str]:
    """Yields the descriptions of evaluation sets; see the head of this module."""
    for name, data in minisgd.unpacked("world").items():
        if name.endswith("schema.json") and "/train/" not in f"/{name}":
            yield from strings(json.loads(data))
    for path in sorted(data_dir.glob("**/schema.json")) if data_dir else ():
        yield from strings(json.loads(path.read_text()))
    for path in files:
        text = path.read_text()
        try:
            yield from strings(json.loads(text))
        except json.JSONDecodeError:
            for line in text.splitlines():
                yield from strings(json.loads(line))


def faults(record: Record) -> Iterator[str]:
    """Yields what is wrong with the form of a record."""
    if record.kind not in rewordings.KINDS:
        yield f"kind {record.kind!r}"
    if (len(record.good), len(record.bad)) != (5, 2):
        yield f"{len(record.good)} good and {len(record.bad)} bad rewordings"
    texts = [record.text, *record.good, *record.bad]
    if record.kind != "name":
        texts = [" ".join(words(text)) for text in texts]
    if len(set(texts)) < len(texts) or "" in texts:
        yield "equal or empty texts"
    for number in re.findall(r"\d{2,}", record.text):
        if record.kind != "name" and not all(number in text for text in record.good):
            yield f"number {number} is missing in a rewording"


def packed(pieces: Sequence[Path], seen: Seen) -> tuple[list[Record], Counter[str]]:
    """Returns the records to ship, and the number of dropped records by reason.

    Services of different pieces with one name get different numbers.
    """
    kept: dict[tuple[str, str, str], Record] = {}
    dropped: Counter[str] = Counter()
    taken: dict[str, Path] = {}
    for piece in pieces:
        names: dict[str, str] = {}
        for record in rewordings.read(piece):
            if record.service not in names:
                stem, number = record.service.rsplit("_", 1)[0], 1
                while taken.get(f"{stem}_{number}", piece) != piece:
                    number += 1
                names[record.service] = f"{stem}_{number}"
                taken[names[record.service]] = piece
            new = msgspec.structs.replace(record, service=names[record.service])
            if record.name == record.service:
                new = msgspec.structs.replace(new, name=new.service)
            key = (new.service, new.kind, new.text.lower())
            if any(found := list(faults(new))):
                dropped[found[0].split(" ")[0]] += 1
            elif key in kept:
                dropped["repeated"] += 1
            elif any(text in seen for text in (new.text, *new.good)):
                dropped["in an evaluation set"] += 1
            else:
                kept[key] = new
    held_out = {one.text.lower() for one in kept.values() if one.split != "train"}
    for key, one in list(kept.items()):
        if one.split == "train" and one.text.lower() in held_out:
            dropped["in a held-out split"] += 1
            del kept[key]
    return sorted(kept.values(), key=lambda one: one.service), dropped


def table(records: Sequence[Record]) -> str:
    """Returns counts, lengths, and distances of words by kind, as Markdown."""
    columns = [
        *("kind", "texts", "services", "train, validation, test", "median words"),
        "Jaccard distance by grade, per cent",
    ]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for kind in rewordings.KINDS:
        rows = [one for one in records if one.kind == kind]
        if not rows:
            continue
        parts = Counter(one.split for one in rows)
        lengths = sorted(len(words(one.text)) for one in rows)
        grades: list[float] = [0.0] * 5
        for one in rows:
            own = set(words(one.text))
            for grade, text in enumerate(one.good):
                other = set(words(text))
                grades[grade] += 1 - len(own & other) / max(1, len(own | other))
        distances = ", ".join(f"{100 * x / len(rows):.0f}" for x in grades)
        lines.append(
            f"| {kind} | {len(rows):,} | {len({one.service for one in rows}):,} "
            f"| {', '.join(f'{parts[name]:,}' for name in rewordings.SPLITS)} "
            f"| {lengths[len(lengths) // 2]} "
            f"| {'-' if kind == 'name' else distances} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pieces", nargs="+", type=Path)
    parser.add_argument("--data_dir", type=Path, help="folder of SGD with SGD-X")
    parser.add_argument("--texts", nargs="*", type=Path, default=[])
    parser.add_argument("--out", type=Path, default=rewordings.ARCHIVE)
    given = parser.parse_args()
    seen = Seen(evaluation_texts(given.data_dir, given.texts))
    records, dropped = packed(given.pieces, seen)
    if not records:
        raise UserError("no record is left: see the reasons with --out elsewhere.")
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in records)
    given.out.write_bytes(lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME))
    print(table(records))
    print(f"{len(records):,} records, {given.out.stat().st_size:,} bytes")
    print("left out:", ", ".join(f"{n} {why}" for why, n in dropped.most_common()))


if __name__ == "__main__":
    main()
