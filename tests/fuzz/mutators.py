"""Seeded damage to files: bytes, JSON, lines of text, and folders.

A mutator takes the bytes of a good file and a `random.Random`, and returns the bytes of
a damaged file, the same for the same seed. `damage` applies a mutator to a file, or to
one file of a folder.
"""

import io
import json
import os
import pickletools
import re
import shutil
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

Mutator = Callable[[bytes, Random], bytes]  # A function with a name.

HUGE = (0x7F, 0x80, 0xFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
DEEP = 100_000


def flip_bits(data: bytes, rng: Random) -> bytes:
    """Inverts one to three bits."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def set_bytes(data: bytes, rng: Random) -> bytes:
    """Sets a run of up to 16 bytes to zero, ones, or noise."""
    start, count = rng.randrange(len(data)), rng.randint(1, 16)
    new = rng.choice([b"\0" * count, b"\xff" * count, rng.randbytes(count)])
    return data[:start] + new[: len(data) - start] + data[start + count :]


def huge_number(data: bytes, rng: Random) -> bytes:
    """Sets four or eight bytes to a number beyond all sizes."""
    width = rng.choice([4, 8])
    number = rng.choice(HUGE) & (1 << 8 * width) - 1
    start = rng.randrange(max(1, len(data) - width))
    new = number.to_bytes(width, rng.choice(["little", "big"]))
    return data[:start] + new + data[start + width :]


def truncate(data: bytes, rng: Random) -> bytes:
    """Cuts the end of the file, sometimes all of it."""
    return data[: rng.choice([0, rng.randrange(len(data)), len(data) - 1])]


def cut_out(data: bytes, rng: Random) -> bytes:
    """Removes a part in the middle."""
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def splice(data: bytes, rng: Random) -> bytes:
    """Copies a part to another place; it replaces the bytes there or is inserted."""
    start, end = _span(data, rng)
    place = rng.randrange(len(data))
    over = rng.choice([0, end - start])
    return data[:place] + data[start:end] + data[place + over :]


def append(data: bytes, rng: Random) -> bytes:
    """Appends noise, zeros, or the file itself."""
    return data + rng.choice([rng.randbytes(40), bytes(4096), data])


def noise(data: bytes, rng: Random) -> bytes:
    """Replaces the whole file by noise."""
    return rng.randbytes(rng.choice([1, 8, len(data)]))


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.choice([1, 4, 64, len(data) // 3]))


BYTES: tuple[Mutator, ...] = (
    flip_bits, set_bytes, huge_number, truncate, cut_out, splice, append, noise,
)  # fmt: skip


def in_front(mutator: Mutator, size: int) -> Mutator:
    """Returns the mutator on the first `size` bytes, the header of a large file."""

    def mutate(data: bytes, rng: Random) -> bytes:
        return mutator(data[:size], rng) + data[size:]

    mutate.__name__ = f"{mutator.__name__} in front"
    return mutate


def other_encoding(data: bytes, rng: Random) -> bytes:
    """Encodes the text in another encoding than UTF-8, or adds a byte-order mark."""
    text = data.decode()
    return rng.choice(
        [
            data.decode("latin-1").encode("utf-16"),
            b"\xef\xbb\xbf" + data,
            text.replace("a", "é", 1).encode("latin-1", "replace"),
            text.replace("a", "\0", 1).encode(),
            text.replace("\n", "\r\n").encode() + b"\x1a",
        ]
    )


# JSON ---------------------------------------------------------------------------------


class Pairs(list):
    """A JSON object as (key, value) lists, so that a key may occur twice."""


class Raw(str):
    """JSON text that is written unchanged."""


OTHERS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, "", "x", "NONE", [], [[]], ["x"], Pairs(),
    Pairs([["x", 1]]), [None],
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    2**31, 2**63, -(2**63) - 1, 10**18, -1, 1e308, Raw("1e999"), Raw("-1e999"),
    Raw("NaN"), Raw("Infinity"), Raw("9" * 5000), Raw("-0.0"), Raw("1" + "0" * 400),
)  # fmt: skip
TEXTS: tuple[Any, ...] = (
    Raw('"\\ud800"'), "\0", "\ufeff", "a\tb\nc", " ", "x" * 100_000, "\u2028", "../..",
    Raw('"\\u0000\\udfff"'),
)  # fmt: skip


def json_mutator(data: bytes, rng: Random) -> bytes:
    """Returns a mutator that replaces one or two values of a JSON file."""
    tree = [json.loads(data, object_pairs_hook=lambda p: Pairs(map(list, p)))]
    for _ in range(rng.randint(1, 2)):
        rng.choice(_JSON)(tree, rng)
    return _written(tree[0]).encode() if tree else b""


def _places(value: Any, found: list[tuple[list, int]]) -> list[tuple[list, int]]:
    """Yields (list, index) of every value in a tree; items of objects are pairs."""
    if isinstance(value, Pairs):
        for pair in value:
            found.append((pair, 1))
            _places(pair[1], found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found.append((value, index))
            _places(item, found)
    return found


def _anywhere(tree: list, rng: Random) -> tuple[list, int]:
    return rng.choice(_places(tree, []) or [([None, None], 1)])


def _replace(values: Sequence[Any]) -> Callable[[list, Random], None]:
    def replace(tree: list, rng: Random) -> None:
        place, index = _anywhere(tree, rng)
        place[index] = rng.choice(values)

    return replace


def _swap(tree: list, rng: Random) -> None:
    (a, i), (b, j) = _anywhere(tree, rng), _anywhere(tree, rng)
    # Compares texts, because either may contain the other.
    a[i], b[j] = Raw(_written(b[j])), Raw(_written(a[i]))


def _nest(tree: list, rng: Random) -> None:
    place, index = _anywhere(tree, rng)
    inner = _written(place[index])
    depth = rng.choice([1, 50, DEEP])
    left, right = rng.choice([("[", "]"), ('{"a": ', "}")])
    place[index] = Raw(left * depth + inner + right * depth)


def _items(tree: list, kinds: type) -> list[list]:
    values = [place[index] for place, index in _places(tree, [])]
    return [value for value in values if isinstance(value, kinds) and value]


def _remove(tree: list, rng: Random) -> None:
    if holders := _items(tree, list):
        holder = rng.choice(holders)
        del holder[rng.randrange(len(holder))]


def _repeat(tree: list, rng: Random) -> None:
    """Repeats an item, or a key with its value."""
    if holders := _items(tree, list):
        holder = rng.choice(holders)
        item = rng.choice(holder)
        holder.append(list(item) if isinstance(holder, Pairs) else item)


def _second_value(tree: list, rng: Random) -> None:
    """Repeats a key with another value."""
    if holders := _items(tree, Pairs):
        holder = rng.choice(holders)
        holder.append([rng.choice(holder)[0], rng.choice(OTHERS)])


def _rename(tree: list, rng: Random) -> None:
    if holders := _items(tree, Pairs):
        pair = rng.choice(rng.choice(holders))
        names = [pair[0] for holder in holders for pair in holder]
        pair[0] = rng.choice([*names, "", pair[0] + "x", pair[0].upper(), "\0"])


_JSON: tuple[Callable[[list, Random], None], ...] = (
    _replace(OTHERS), _replace(OTHERS), _replace(NUMBERS), _replace(TEXTS), _swap,
    _nest, _remove, _remove, _repeat, _second_value, _rename,
)  # fmt: skip


def _written(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        pairs = (f"{json.dumps(key)}: {_written(item)}" for key, item in value)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value)


JSON: tuple[Mutator, ...] = (
    *[json_mutator] * 12, other_encoding, *BYTES,
)  # fmt: skip


# Lines of text ------------------------------------------------------------------------

_WORDS = re.compile(r"[\w.]+")
_STRANGE = (
    "-1", "0", "1e999", "9" * 5000, "None", "'", '"', "(" * 200, "[" * DEEP, "@", "%",
    "@x.y()", "%MISSING", "\\", "\0", "\t", "=", "é", "{1: 2}", "import os", "...",
)  # fmt: skip


def change_lines(data: bytes, rng: Random) -> bytes:
    """Removes, repeats, swaps, or indents lines."""
    lines = data.decode().splitlines(keepends=True)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[a]
        case 1:
            lines.insert(b, lines[a])
        case 2:
            lines[a], lines[b] = lines[b], lines[a]
        case 3:
            lines[a] = f"  {lines[a]}"
        case 4:
            lines[a] = lines[a].rstrip("\n")
    return "".join(lines).encode()


def change_words(data: bytes, rng: Random) -> bytes:
    """Replaces a word by another word of the file, or by something strange."""
    text = data.decode()
    words = list(_WORDS.finditer(text))
    word, other = rng.choice(words), rng.choice(words).group()
    new = rng.choice([other, other, word.group() + "x", *_STRANGE])
    return (text[: word.start()] + new + text[word.end() :]).encode()


def change_line(mutator: Mutator) -> Mutator:
    """Returns the mutator on one line, for JSON lines."""

    def mutate(data: bytes, rng: Random) -> bytes:
        lines = data.split(b"\n")
        chosen = rng.randrange(len(lines) - 1)
        lines[chosen] = mutator(lines[chosen], rng)
        return b"\n".join(lines)

    mutate.__name__ = f"{mutator.__name__} of a line"
    return mutate


LINES: tuple[Mutator, ...] = (
    change_lines, change_lines, change_words, change_words, change_words,
    other_encoding, *BYTES,
)  # fmt: skip


# Formats with checksums or counts inside, which plain damage would not pass -----------


def safetensors_header(data: bytes, rng: Random) -> bytes:
    """Changes the JSON header and corrects its length."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json_mutator(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def zip_member(suffix: str, mutators: Sequence[Mutator]) -> Mutator:
    """Returns the mutator on a member of a zip file; its checksum is corrected."""

    def mutate(data: bytes, rng: Random) -> bytes:
        target = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(data)) as old,
            zipfile.ZipFile(target, "w") as new,
        ):
            chosen = rng.choice([n for n in old.namelist() if n.endswith(suffix)])
            for name in old.namelist():
                content = old.read(name)
                if name == chosen:
                    content = rng.choice(mutators)(content, rng)
                new.writestr(name, content)
        return target.getvalue()

    mutate.__name__ = f"{' or '.join(m.__name__ for m in mutators)} in {suffix}"
    return mutate


def pickle_numbers(data: bytes, rng: Random) -> bytes:
    """Changes an integer of a pickle: an offset, a size, or a stride."""
    places = [
        (position, opcode.name)
        for opcode, _, position in pickletools.genops(data)
        if opcode.name in ("BININT", "BININT1", "BININT2")
    ]
    position, name = rng.choice(places)
    width = {"BININT": 4, "BININT1": 1, "BININT2": 2}[name]
    number = rng.choice([-1, -8, -(2**31), 2**31 - 1, 0, 1, 5, 1 << 20])
    new = b"J" + struct.pack("<i", number)
    return data[:position] + new + data[position + 1 + width :]


# Files --------------------------------------------------------------------------------


_PIPES = 0.02  # Share of the files.


def damage(path: Path, mutators: Sequence[Mutator], rng: Random) -> str:
    """Damages a file, or one file of a folder, in place; returns a description.

    Large files of a folder are chosen more often, and JSON files are damaged as JSON.
    In addition, any file may become a pipe without a writer. A file of a folder may
    vanish, become a folder, or become a copy of another file.
    """
    if path.is_file():
        if rng.random() < _PIPES:
            return _into_pipe(path)
        mutator = rng.choice(mutators)
        _change(path, mutator, rng)
        return mutator.__name__
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.stat().st_size)
    sizes = [p.stat().st_size for p in files]
    (file,) = rng.choices(files, rng.choice([sizes, None]))
    name = file.relative_to(path)
    if rng.random() < _PIPES:
        return f"{name}: {_into_pipe(file)}"
    match rng.randrange(10):
        case 0:
            file.unlink()
            return f"{name}: removed"
        case 1:
            file.unlink()
            file.mkdir()
            return f"{name}: a folder"
        case 2:
            other = rng.choice(files)
            if other != file and other.read_bytes() != file.read_bytes():
                shutil.copyfile(other, file)
                return f"{name}: the content of {other.relative_to(path)}"
    mutator = rng.choice(JSON if file.suffix == ".json" else mutators)
    _change(file, mutator, rng)
    return f"{name}: {mutator.__name__}"


def _into_pipe(path: Path) -> str:
    path.unlink()
    os.mkfifo(path)
    return "a pipe"


def _change(path: Path, mutator: Mutator, rng: Random) -> None:
    before = path.read_bytes()
    after = mutator(before, rng)
    while after == before:
        after = flip_bits(before, rng)
    path.write_bytes(after)
