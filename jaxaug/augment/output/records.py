"""The files of a run: the schemas of its variants, `candidates.jsonl`, `augment.json`.

The schemas have the layout of SGD-X.

A line of `candidates.jsonl` is one candidate of one description. It has id, kind,
service, name, and source of the description; candidate, count, and settings; metrics;
reasons if it was dropped; and its variant if it is one (1 for v1).

`augment.json` is written last. It has the config, the counts, and the hash of every
file, so a second run knows that nothing is left to do. Before its first file, a run
claims there the files that it will write. A resumed or later run then knows which files
are foreign.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etils import epath
from jaxaug_base.files import temporary_name

from jaxaug.augment import decisions
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import Decided
from jaxaug.augment.descriptions import Description, with_texts
from jaxaug.augment.selection import Judged, Result
from jaxaug.core import json_reader
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, read_text, shown, write_text
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import Schema, read_schema, service_object
from jaxaug.paraphrase.candidates import Candidate

CANDIDATES, MANIFEST = "candidates.jsonl", "augment.json"
BESIDE = "beside"
"""Folder of the other runs in the report."""

_NAMED = 5  # Maximum texts without a rewording that are named.
_FIX = "Name the folder that `jaxaug augment --out` wrote."
# Field -> type, as `_records` writes them: for each line, and for a candidate.
_FIELDS: dict[str, type] = {
    "id": str, "kind": str, "service": str, "name": str, "source": str,
    "protected": list,
}  # fmt: skip
_CANDIDATE: dict[str, type] = {
    "count": int,
    "settings": list,
    "metrics": dict,
    "dropped": list,
}


def write_candidates(out: PathLike, results: Iterable[Result]) -> epath.Path:
    """Writes `candidates.jsonl`, a line for each candidate; returns its path.

    A description without candidates has one line, whose `candidate` is null.
    """
    path = epath.Path(out) / CANDIDATES
    lines = (
        json.dumps(record, ensure_ascii=False)
        for result in results
        for record in _records(result)
    )
    write_text(path, "".join(f"{line}\n" for line in lines))
    return path


def _records(result: Result) -> Iterator[dict[str, Any]]:
    one = result.description
    # The original text is not a candidate.
    places = {
        text: number
        for number, text in enumerate(result.selected, 1)
        if text != one.text
    }
    head = {
        "id": one.id,
        "kind": one.kind,
        "service": one.service,
        "name": one.name,
        "source": one.text,
        "protected": list(one.protected),
    }
    if not result.judged:
        yield head | {"candidate": None}
    for judged in result.judged:
        yield head | {
            "candidate": judged.candidate.text,
            "count": judged.candidate.count,
            "settings": list(judged.candidate.settings),
            "metrics": dict(judged.values),
            "dropped": list(judged.dropped),
            "variant": places.get(judged.candidate.text),
        }


def read_candidates(out: PathLike, key: str) -> tuple[Description, list[Judged]]:
    """Returns the candidates of one description of a run.

    Raises:
        UserError: the run or the id does not exist.
    """
    ids: dict[str, None] = {}
    found: list[dict[str, Any]] = []
    for record in read_records(out):
        ids[record["id"]] = None
        if record["id"] == key:
            found.append(record)
    if not found:
        path = epath.Path(out) / CANDIDATES
        raise UserError(f"{key!r} is not an id of {path}; {suggestion(key, ids)}")
    description = description_of(found[0])
    return description, [
        Judged(
            Candidate(r["candidate"], r["count"], tuple(r["settings"])),
            r["metrics"],
            tuple(r["dropped"]),
        )
        for r in found
        if r["candidate"] is not None
    ]


def read_records(out: PathLike) -> Iterator[dict[str, Any]]:
    """Yields the lines of `candidates.jsonl` of a run, each with all of its fields.

    Raises:
        UserError: the run does not exist, or a line is damaged.
    """
    path = epath.Path(out) / CANDIDATES
    # `splitlines` would also split at characters inside a text.
    for number, line in enumerate(read_text(path, _FIX).split("\n")[:-1], 1):
        yield _record(line, f"{path}: line {number}")


def description_of(record: Mapping[str, Any]) -> Description:
    """Returns the description of a line of `candidates.jsonl`."""
    return Description(
        record["id"], record["kind"], record["service"], record["name"],
        record["source"], tuple(record["protected"]),
    )  # fmt: skip


def _record(line: str, where: str) -> dict[str, Any]:
    """Returns a line of `candidates.jsonl`, with every required field."""
    try:
        record = json_reader.decoded(line)
        wanted: dict[str, type] = dict(_FIELDS)
        if record["candidate"] is not None:
            wanted |= {"candidate": str} | _CANDIDATE
        if {name: type(record[name]) for name in wanted} != wanted:
            raise TypeError("a field of another type")
    except (ValueError, LookupError, TypeError):
        raise UserError(f"{where}: is damaged: {shown(line)}. {_FIX}") from None
    return record


@dataclasses.dataclass(frozen=True)
class Counts:
    """The numbers of a run.

    Attributes:
        descriptions: descriptions of all splits.
        texts: distinct texts among them.
        outputs: outputs for the descriptions; equal texts share theirs.
        candidates: distinct outputs.
        dropped: reason -> candidates; one may have several reasons.
        original: variant texts that are the original for lack of a candidate.
        without: descriptions whose variants are all the original.
        variants: K.
    """

    descriptions: int
    texts: int
    outputs: int
    candidates: int
    dropped: Mapping[str, int]
    original: int
    without: int
    variants: int

    def __str__(self) -> str:
        """Returns the lines for the end of a run."""
        reasons = sorted(self.dropped.items(), key=lambda pair: (-pair[1], pair[0]))
        total = self.descriptions * self.variants
        names = ", ".join(f"{n} {name}" for name, n in reasons) or "none"
        return (
            f"{self.descriptions} descriptions ({self.texts} distinct), {self.outputs} "
            f"outputs, {self.candidates} distinct candidates\n"
            f"dropped: {names}\n"
            f"{self.original} of {total} variant texts are the original, for lack of a "
            f"candidate; {self.without} descriptions have no other text in any variant"
        )


def counts(results: Sequence[Result], variants: int) -> Counts:
    """Returns the numbers of a run."""
    dropped = Counter(
        reason for r in results for judged in r.judged for reason in judged.dropped
    )
    return Counts(
        len(results),
        len({r.description.text for r in results}),
        sum(judged.candidate.count for r in results for judged in r.judged),
        sum(len(r.judged) for r in results),
        dict(dropped),
        sum(r.kept for r in results),
        sum(r.kept == variants for r in results),
        variants,
    )


def without(results: Sequence[Result], fix: str) -> list[str]:
    """Returns lines about texts with fewer rewordings than variants, if there are any.

    Args:
        fix: sentence at the end of the line about texts without rewordings.
    """
    bare = [r for r in results if r.kept == len(r.selected)]
    few = [r for r in results if 0 < r.kept < len(r.selected)]
    lines = []
    if bare:
        head = f"{len(bare)} of {len(results)} texts have no rewording: "
        lines.append(f"{head}{_named(bare)} {fix}")
    if few:
        head = (
            f"{len(few)} of {len(results)} texts have fewer rewordings than variants: "
        )
        lines.append(head + _named(few))
    return lines


def _named(results: Sequence[Result]) -> str:
    """Returns the first texts, each with the most frequent reason for drops."""
    named = []
    for one in results[:_NAMED]:
        reasons = Counter(reason for j in one.judged for reason in j.dropped)
        why = f"{len(one.judged)} candidates" if one.judged else "no candidate"
        if reasons:
            reason, number = min(reasons.items(), key=lambda item: (-item[1], item[0]))
            why += f", {number} dropped by {reason}"
        named.append(f"{one.description.id} ({shown(one.description.text)}: {why})")
    return ", ".join(named) + (", ..." if len(results) > _NAMED else ".")


def check_target(out: PathLike) -> None:
    """Refuses a folder with a file that no run of ours wrote.

    Hidden files and the decisions of people about the run are allowed.

    Raises:
        UserError: names the first such file.
    """
    folder = epath.Path(out)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file. Choose another --out.")
    listed = {decisions.FILE, *_listed(folder)}
    found = [base / name for base, _, names in folder.walk() for name in names]
    for path in sorted(found):
        name = str(path.relative_to(folder))
        if name not in listed and not path.name.startswith("."):
            raise UserError(
                f"{folder}: holds {name}, which no run of `jaxaug augment` wrote (its "
                f"files are listed in {MANIFEST}). Choose another --out, a new folder."
            )


def claim(out: PathLike, config: Config, names: Iterable[str]) -> None:
    """Records the files that a run will write, in addition to earlier runs' files.

    Args:
        names: paths of files in `out`.
    """
    path = epath.Path(out) / MANIFEST
    manifest = {"digest": "", "config": config.key(), "files": {}}
    if path.exists():
        manifest = read_manifest(out)
    claimed = {*manifest.get("claimed", ()), *names}
    manifest["claimed"] = sorted(claimed)
    write_text(path, json.dumps(manifest, indent=2) + "\n")


def _listed(folder: epath.Path) -> set[str]:
    """Returns paths of files written or claimed in a folder, including other runs."""
    if not (folder / MANIFEST).exists():
        return set()
    manifest = read_manifest(folder)
    found = {MANIFEST, *manifest["files"], *manifest.get("claimed", ())}
    beside = folder / BESIDE
    for other in beside.iterdir() if beside.is_dir() else ():
        found |= {f"{BESIDE}/{other.name}/{name}" for name in _listed(other)}
    return found


def write_manifest(
    out: PathLike,
    digest: str,
    config: Config,
    numbers: Counts,
    files: Sequence[epath.Path],
    decided: Mapping[str, Decided],
) -> None:
    """Writes the manifest that marks a run as complete."""
    folder = epath.Path(out)
    own = {str(p.relative_to(folder)): file_digest(p) for p in sorted(files)}
    # Files of earlier runs, such as one on another split.
    others = {n for n in _listed(folder) if (folder / n).exists()} - own.keys()
    others = {n for n in others if not n.startswith(f"{BESIDE}/")} - {MANIFEST}
    manifest = {
        "digest": digest,
        "config": config.key(),
        "counts": dataclasses.asdict(numbers),
        "decided": {key: found.key() for key, found in decided.items()},
        "files": own,
        "claimed": sorted(others),
    }
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")


def decided(manifest: Mapping[str, Any]) -> dict[str, Decided]:
    """Returns id of a description -> decisions of people before the run."""
    found = manifest.get("decided", {})
    return {key: decisions.of_json(value) for key, value in found.items()}


def is_complete(out: PathLike, digest: str) -> bool:
    """Returns whether a run with this digest wrote all its files, still unchanged."""
    folder = epath.Path(out)
    if not (folder / MANIFEST).exists():
        return False
    manifest = read_manifest(out)
    return manifest["digest"] == digest and all(
        (folder / name).exists() and file_digest(folder / name) == found
        for name, found in manifest["files"].items()
    )


def read_manifest(out: PathLike) -> dict[str, Any]:
    """Returns the manifest of a run.

    Raises:
        UserError: the file is missing or is not a manifest.
    """
    path = epath.Path(out) / MANIFEST
    manifest = read_json(path, _FIX)
    kinds = {"digest": str, "config": dict, "files": dict}
    if not isinstance(manifest, dict) or not all(
        isinstance(manifest.get(name), kind) for name, kind in kinds.items()
    ):
        raise UserError(f"{path}: is not a record of `jaxaug augment`. Remove it.")
    return manifest


def write_variants(
    out: PathLike,
    data_dir: PathLike,
    split: str,
    schema: Schema,
    texts: Sequence[Mapping[str, str]],
    first: int = 1,
) -> list[epath.Path]:
    """Writes `out/v1..vK/<split>/schema.json`, each of them whole; returns the paths.

    As in SGD-X, service names get the digit of the variant. All variants are written
    under temporary names, read back as a variant of `data_dir`, and then renamed. If
    one cannot be written, no file is changed.

    Args:
        out: a variants folder, such as `DATA_DIR/variants/<name>`.
        data_dir: folder of the original schema, which the check reads.
        split: "train", "dev", or "test".
        texts: for each variant, id of a description -> text; v1 is the most similar to
            the original. A description without an id keeps the original text.
        first: number of the first written variant; variants before it stay.

    Raises:
        UserError: there are no variants, a text is wrong (see
            `descriptions.with_texts`), or `out` holds further variants. It is also
            raised if a file cannot be written or differs when read back. Files of
            earlier runs stay unchanged.
    """
    if not texts:
        raise UserError(
            f"no variants to write to {out}: give the texts of at least v1."
        )
    folder = epath.Path(out)
    numbers = range(first, first + len(texts))
    _no_others(folder, split, numbers)
    variants = []
    for number, chosen in zip(numbers, texts, strict=True):
        services = with_texts(schema, split, chosen).services
        named = (dataclasses.replace(s, name=f"{s.name}{number}") for s in services)
        variants.append(Schema(tuple(named)))
    targets = [folder / f"v{number}" / split / "schema.json" for number in numbers]
    _write_all(targets, variants, folders.schema_path(data_dir, split))
    return targets


def schema_json(schema: Schema) -> str:
    """Returns the schema as the text of a `schema.json`."""
    services = [service_object(service) for service in schema.services]
    return json.dumps(services, indent=2, ensure_ascii=False) + "\n"


def _no_others(folder: epath.Path, split: str, numbers: range) -> None:
    meant = {f"v{number}" for number in range(1, numbers.stop)}
    for name in folders.variant_names(folder):
        if name not in meant and split in folders.variant_splits(folder, name):
            raise UserError(
                f"{folder / name / split}: left by a run with more variants than the "
                f"{len(numbers)} of this one. Remove {folder / name}, or choose "
                "another --out."
            )


def _write_all(
    targets: Sequence[epath.Path], variants: Sequence[Schema], original: epath.Path
) -> None:
    """Writes files under temporary names, checks each, then renames them together."""
    parts = [temporary_name(target) for target in targets]
    made: list[epath.Path] = []
    renamed = 0
    path = targets[0]
    try:
        for path, part, variant in zip(targets, parts, variants, strict=True):
            made += _make_folder(path.parent)
            part.write_text(schema_json(variant), encoding="utf-8")
            _check(part, path, variant, original)
        for path, part in zip(targets, parts, strict=True):
            part.replace(path)
            renamed += 1
    except BaseException as error:
        for part in parts:
            part.unlink(missing_ok=True)
        # A folder without a schema would count as a variant.
        for empty in reversed(made):
            if not any(empty.iterdir()):
                empty.rmdir()
        if isinstance(error, OSError):
            raise UserError(
                f"{path}: cannot be written ({error.strerror or error}); {renamed} of "
                f"{len(targets)} variants were changed. Free space or choose another "
                "--out, then run the command again."
            ) from error
        raise


def _make_folder(folder: epath.Path) -> list[epath.Path]:
    """Makes a folder; returns the new folders, the outer ones first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _check(
    part: epath.Path, target: epath.Path, meant: Schema, original: epath.Path
) -> None:
    """Raises `UserError` if the file differs from the intended variant."""
    found = read_schema(part)
    renaming(read_schema(original), found, str(target))
    if found != meant:
        raise UserError(
            f"{target}: the file read back differs from the written one. Check the "
            "disk, and run the command again."
        )
