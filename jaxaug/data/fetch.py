"""`jaxaug data fetch`: downloads a data set, verifies it, unpacks it.

Archives that a server packs on request (those of GitHub) have no lasting checksum,
but their contents do: git's tree id, a SHA-1 over names and contents of a folder.
Such archives are verified by the tree ids of a pinned commit, others by SHA-256.
(pooch knows neither tree ids nor how to continue a download.)
"""

import argparse
import hashlib
import http.client
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jaxaug.core.errors import UserError
from jaxaug.core.files import check_ordinary, is_remote
from jaxaug.core.progress import progress
from jaxaug.core.publishing import naming
from jaxaug.core.suggestion import one_of
from jaxaug.data import multiwoz
from jaxaug.data.archive import MAX_TOTAL, BrokenError, members

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class DataSet:
    """Where a data set comes from and how it is verified.

    Attributes:
      url: a .tar.gz, .tgz or .zip.
      archive: the name of the archive's file on this machine.
      keep: pattern of the members to unpack; its first group is where to.
      layout: what the folder holds afterwards, for who fills it by hand.
      note: what else the user should know.
      sha256: of the archive, or None where only `trees` are known.
      trees: folder in the archive -> its git tree id.
      prepare: rewrites the folder of unpacked files in the layout that jaxaug reads, and
        says what it changed.
      top_folder: whether everything lies in one folder of the archive, which then is
        no part of a member's name.
    """

    url: str
    archive: str
    keep: str
    layout: str
    note: str
    sha256: str | None = None
    trees: Mapping[str, str] = field(default_factory=dict)
    top_folder: bool = True
    prepare: Callable[[Path], str] | None = None


_SGD_COMMIT = "e852981ae34990f4358979625854259302feaa78"
_MULTIWOZ_COMMIT = "fe0c8e65cfcd8462bd33c86e35f21addc84ca82b"
_FEWSHOT_COMMIT = "e098c2265a27f2e107540c54c6992fc0cd20a4a9"
_SNIPS_COMMIT = "b86ac7f1577868c42158d0dec77db50956046696"

DATA_SETS: dict[str, DataSet] = {
    "sgd": DataSet(
        url="https://github.com/google-research-datasets/"
        f"dstc8-schema-guided-dialogue/archive/{_SGD_COMMIT}.tar.gz",
        archive="sgd.tar.gz",
        keep=r"((?:train|dev|test|sgd_x/data)/[\w/]+\.json|LICENSE\.txt)",
        layout="train/, dev/, test/ and sgd_x/data/v1..v5/",
        trees={
            "train": "e51ac0bf13ec1b3f76533ae2816d47f4012dd911",
            "dev": "b6cdf2665e8c2968a4dfe3438d3c5c3dea3a99f7",
            "test": "404e6e003a2dd027bcbdc7c2fa0661323c6eca19",
            "sgd_x/data": "3984fa9ccb1e8c0bc1a1247d02464811c9a5b5e0",
        },
        note="SGD and SGD-X, CC BY-SA 4.0. Use it with --data_dir.",
    ),
    "multiwoz22": DataSet(
        url="https://github.com/budzianowski/multiwoz/archive/"
        f"{_MULTIWOZ_COMMIT}.tar.gz",
        archive="multiwoz.tar.gz",
        keep=r"(?:data/MultiWOZ_2\.2/)?"
        r"((?:train|dev|test)/dialogues_\d+\.json|schema\.json|LICENSE)",
        layout="train/, dev/ and test/, as `jaxaug data convert multiwoz22` writes them "
        "from the repository's data/MultiWOZ_2.2",
        trees={"data/MultiWOZ_2.2": "7049b21a6f91953971abe2057a97810474cefe4c"},
        note="MultiWOZ 2.2, MIT, in the layout of SGD. Use it with --data_dir.",
        prepare=multiwoz.prepare,
    ),
    "personachat": DataSet(
        url="http://parl.ai/downloads/convai2/convai2_fix_723.tgz",
        archive="convai2_fix_723.tgz",
        keep=r"(?:.*/)?(\w+\.txt)",
        layout="train_self_original_no_cands.txt, valid_self_original_no_cands.txt, ...",
        sha256="d0ae89defe2fd0b0a4221eaa642a457d7d40cef475f54798119c7f3b8dd9361d",
        top_folder=False,
        note="Persona-Chat as prepared for ConvAI2, in ParlAI's text format.",
    ),
    "fewshot": DataSet(
        url="https://raw.githubusercontent.com/jasonwei20/triplet-loss/"
        f"{_FEWSHOT_COMMIT}/data.zip",
        archive="triplet-loss-data.zip",
        keep=r"((?:huff|covidclu|amzn|fewrel)/(?:train|test)\.txt)",
        layout="huff/, covidclu/, amzn/ and fewrel/ with train.txt and test.txt each",
        sha256="f4cfac50c6abbab520cffa0802732ac3fb87561588a18fa4d96291902dd35f36",
        note="HuffPost, COVID-Q, Amazon and FewRel as in Wei et al. (2021).",
    ),
    "snips": DataSet(
        url=f"https://github.com/sonos/nlu-benchmark/archive/{_SNIPS_COMMIT}.tar.gz",
        archive="nlu-benchmark.tar.gz",
        keep=r"2017-06-custom-intent-engines/\w+/"
        r"(train_[A-Za-z]+_full\.json|validate_[A-Za-z]+\.json)",
        layout="train_<Intent>_full.json and validate_<Intent>.json of 7 intents",
        trees={
            "2017-06-custom-intent-engines": "ad8a124a6153ce342ae54ed5f7c341e7b87b57e6"
        },
        note="Seven intents of the SNIPS benchmark, CC0.",
    ),
}


def fetch(data_set: DataSet, out: Path) -> list[Path]:
    """Downloads, verifies and unpacks a data set into the folder `out`.

    The archive lies beside `out` meanwhile. If it is there already (brought from
    another machine), nothing is downloaded; a partial download is continued. The
    contents are verified before the first file of `out` changes. A file that is
    there with other contents is kept as `<name>.replaced`; further files stay.

    Returns:
      The files of the data set in `out`.

    Raises:
      UserError: no network, or the download differs from the pinned checksum.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    archive = out.parent / data_set.archive
    check_ordinary(archive, "Remove it and run the command again.")
    brought_here = archive.exists()
    if not brought_here:
        _download(data_set, archive, out)
    try:
        with tempfile.TemporaryDirectory(
            dir=out.parent, prefix=f".{out.name}."
        ) as folder:
            place = Path(folder) / "files"
            unpacked = _unpack(data_set, archive, place)
            if data_set.prepare is not None:
                print(data_set.prepare(place))
                found = (path for path in place.rglob("*") if path.is_file())
                unpacked = sorted(path.relative_to(place).as_posix() for path in found)
            files = [_move(place / name, out / name) for name in unpacked]
    except UserError:
        if not brought_here:
            archive.unlink()
        raise
    if not brought_here:
        archive.unlink()
    return files


def _download(data_set: DataSet, archive: Path, out: Path) -> None:
    url = data_set.url
    part = archive.with_name(f"{archive.name}.part")
    check_ordinary(part, "Remove it and run the command again.")
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "jaxaug"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    advice = (
        f"Check the network and run the command again. Without network: download {url} "
        f"on another machine, put it here as {archive} and run the command again, or "
        f"put the unpacked files into {out} ({data_set.layout})."
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            # A server that cannot continue answers 200 and sends everything.
            if response.status != http.HTTPStatus.PARTIAL_CONTENT:
                start = 0
            length = response.headers.get("Content-Length")
            total = start + int(length) if (length or "").isdigit() else None
            if (total or 0) > MAX_TOTAL:
                raise _too_long(url, total)
            with (
                naming(part),
                open(part, "ab" if start else "wb") as file,
                progress(
                    desc=archive.name,
                    initial=start,
                    total=total,
                    unit="B",
                    unit_scale=True,
                ) as bar,
            ):
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    bar.update(len(chunk))
                    if file.tell() > MAX_TOTAL:
                        part.unlink()
                        raise _too_long(url, file.tell())
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
            raise UserError(
                f"{part} is longer than what {url} offers; removed it. Run the command "
                "again."
            ) from None
        raise UserError(
            f"{url}: the server answers {error.code} {error.reason}. {advice}"
        ) from None
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
    ) as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"{url}: cannot be downloaded: {reason}. {advice}") from None
    if total is not None and part.stat().st_size != total:
        raise UserError(
            f"{url}: the connection broke after {part.stat().st_size:,} of {total:,} "
            f"bytes; {part} keeps them. Run the command again to continue."
        )
    part.rename(archive)


def _too_long(url: str, size: int | None) -> UserError:
    return UserError(
        f"{url}: sends {size:,} bytes or more, at most {MAX_TOTAL:,} are taken. Check the "
        "address, or download the data set by hand."
    )


def _unpack(data_set: DataSet, archive: Path, target: Path) -> list[str]:
    """Verifies the archive and unpacks the members to keep; returns their names."""
    advice = f"Remove {archive} if it is still there and run the command again."
    if data_set.sha256 is not None:
        with open(archive, "rb") as file:
            got = hashlib.file_digest(file, "sha256").hexdigest()
        if got != data_set.sha256:
            raise UserError(
                f"{archive}: SHA-256 is {got}, expected {data_set.sha256}: cut off or "
                f"changed. {advice}"
            )
    blobs: dict[str, tuple[str, str]] = {}
    names: dict[str, str] = {}
    try:
        for member in members(archive, data_set.top_folder):
            name = member.name
            is_checked = any(name.startswith(f"{one}/") for one in data_set.trees)
            match = re.fullmatch(data_set.keep, name)
            if name in blobs or (match and names.setdefault(match[1], name) != name):
                raise BrokenError(f"{name:.100} takes the place of another member")
            if is_checked or match:
                blob = member.unpack(target / match[1] if match else None)
            if is_checked:
                blobs[name] = member.mode, blob
    except (BrokenError, FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{archive}: broken archive: {error}. {advice}") from None
    for folder, expected in data_set.trees.items():
        got = git_tree_id(blobs, folder)
        if got != expected:
            raise UserError(
                f"{archive}: folder {folder}/ has git tree id {got}, expected "
                f"{expected}: cut off or changed. {advice}"
            )
    if not names:
        raise UserError(f"{archive}: holds no file of the data set. {advice}")
    return sorted(names)


def git_id(kind: str, content: bytes) -> str:
    """The id that git gives an object ("blob" or "tree"), as hexadecimal SHA-1."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def git_tree_id(blobs: Mapping[str, tuple[str, str]], folder: str) -> str:
    """The id that git gives a folder.

    Args:
      blobs: path -> (mode, blob id), of the files in the folder and its sub-folders.
      folder: path prefix, without a slash at the end.
    """
    entries: dict[str, tuple[str, str]] = {}
    children = set()
    for path, entry in blobs.items():
        if path.startswith(f"{folder}/"):
            name, _, rest = path[len(folder) + 1 :].partition("/")
            if rest:
                children.add(name)
            else:
                entries[name] = entry
    for name in children:
        entries[name] = "40000", git_tree_id(blobs, f"{folder}/{name}")
    # Git sorts a folder as if its name ended in a slash.
    ordered = sorted(
        entries.items(),
        key=lambda item: f"{item[0]}/" if item[1][0] == "40000" else item[0],
    )
    content = b"".join(
        f"{mode} {name}\0".encode() + bytes.fromhex(sha)
        for name, (mode, sha) in ordered
    )
    return git_id("tree", content)


def _move(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        if target.read_bytes() == source.read_bytes():
            return target
        target.replace(target.with_name(f"{target.name}.replaced"))
    shutil.move(source, target)
    return target


def run(arguments: argparse.Namespace) -> int:
    """The verb `jaxaug data fetch`."""
    data_set = DATA_SETS.get(arguments.name)
    if data_set is None:
        raise UserError(
            f"unknown data set {arguments.name!r}: "
            f"{one_of(arguments.name, DATA_SETS, 'choose')}"
        )
    if is_remote(arguments.out or ""):
        raise UserError(
            f"--out {arguments.out}: a download goes to a local folder. Name one, and "
            "copy it afterwards."
        )
    out = Path(arguments.out or Path("data") / arguments.name)
    files = fetch(data_set, out)
    print(f"{len(files)} files verified in {out}. {data_set.note}")
    return 0
