"""`jaxaug data fetch`: downloads, verifies, and unpacks a data set.

Archives that a server packs on request, such as GitHub's, have no stable checksum.
Their contents have one: git's tree id, a SHA-1 over the names and contents of a folder.
Such archives are verified by the tree ids of a pinned commit, others by SHA-256. pooch
supports neither tree ids nor resumed downloads.

An archive may be hostile. Sizes in headers are compared with limits before a member is
unpacked, contents are read in pieces, and errors of the libraries for damaged archives
become `BrokenError`.
"""

import contextlib
import gzip
import hashlib
import http.client
import itertools
import lzma
import os
import re
import shutil
import struct
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from etils import epath
from jaxaug_base.files import naming, scratch_folder

from jaxaug.core import extensions, hub, pins
from jaxaug.core.cache_folder import cache_dir
from jaxaug.core.errors import UserError
from jaxaug.core.files import check_ordinary, is_remote
from jaxaug.core.installed import missing_package
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import one_of
from jaxaug.data import datasets
from jaxaug.data.arguments import Convert, Fetch
from jaxaug.data.datasets import DataSet

MAX_MEMBER = 10**9
"""Maximum bytes of a member, far above those in the known data sets."""
MAX_TOTAL = 4 * 10**9
"""Maximum bytes of all members together, and of an archive."""
MAX_MEMBERS = 100_000
"""Maximum number of members; the libraries keep a record of each in memory."""
_CHUNK = 1 << 20
# Limit for names and extended headers, which `tarfile` reads as a whole.
_LONGEST_READ = 16 << 20
_METHODS = (
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
    zipfile.ZIP_BZIP2,
    zipfile.ZIP_LZMA,
)
_DAMAGE = (
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    ValueError,
    OverflowError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class BrokenError(Exception):
    """An archive cannot be unpacked; the message says why."""


class Member(NamedTuple):
    """A regular file in an archive; read it before you request the next member."""

    name: str
    mode: str
    size: int
    stream: IO[bytes]

    def unpack(self, target: Path | None) -> str:
        """Returns the git blob id; writes the content to `target` unless it is None.

        Raises:
            BrokenError: the content is damaged, or its size differs from the header.
        """
        digest = hashlib.sha1(f"blob {self.size}\0".encode(), usedforsecurity=False)
        size = 0
        with contextlib.ExitStack() as stack:
            file = None
            if target is not None:
                stack.enter_context(naming(target))
                target.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(target.open("xb"))
            while chunk := self._piece():
                size += len(chunk)
                digest.update(chunk)
                if file is not None:
                    file.write(chunk)
        if size != self.size:
            raise BrokenError(
                f"{self.name} has {size} bytes, its header says {self.size}"
            )
        return digest.hexdigest()

    def _piece(self) -> bytes:
        with _damage():
            return self.stream.read(_CHUNK)


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise BrokenError(str(error) or type(error).__name__) from None


class _Unpacked(gzip.GzipFile):
    """A gzip stream that returns at most a few MiB per read."""

    def read(self, size: int | None = -1) -> bytes:
        """Reads bytes; raises `tarfile.ReadError` for requests above a few MiB."""
        if size is None or not 0 <= size <= _LONGEST_READ:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return super().read(size)


def members(archive: Path, top_folder: bool) -> Iterator[Member]:
    """Yields every regular file of an archive.

    Args:
        archive: file in the format .tar.gz or .zip; its name is ignored.
        top_folder: whether to drop the outermost folder from the names.

    Raises:
        BrokenError: the archive is damaged, is encrypted, has an unknown compression,
            or exceeds the limits.
    """
    if (size := archive.stat().st_size) > MAX_TOTAL:
        raise BrokenError(f"it has {size:,} bytes, at most {MAX_TOTAL:,} are unpacked")
    with _damage():
        is_zip = zipfile.is_zipfile(archive)
    total = 0
    for member in (_of_zip if is_zip else _of_tar)(archive):
        total += member.size
        if member.size > MAX_MEMBER:
            raise BrokenError(
                f"{member.name:.100} has {member.size:,} bytes, at most {MAX_MEMBER:,} "
                "are unpacked"
            )
        if total > MAX_TOTAL:
            raise BrokenError(
                f"its members have more than {MAX_TOTAL:,} bytes together"
            )
        parts = PurePosixPath(member.name).parts
        yield member._replace(name="/".join(parts[1:] if top_folder else parts))


def _check_count(count: int) -> None:
    if count >= MAX_MEMBERS:
        raise BrokenError(f"it has more than {MAX_MEMBERS:,} members")


def _of_zip(archive: Path) -> Iterator[Member]:
    with contextlib.ExitStack() as stack:
        with _damage():
            packed = stack.enter_context(zipfile.ZipFile(archive))
        for count, entry in enumerate(packed.infolist()):
            _check_count(count)
            if entry.is_dir():
                continue
            if entry.flag_bits & 1:
                raise BrokenError(f"{entry.filename:.100} is encrypted")
            # Libraries add methods to `zipfile`, whose errors `_DAMAGE` lacks.
            if entry.compress_type not in _METHODS:
                raise BrokenError(
                    f"{entry.filename:.100} has compression method "
                    f"{entry.compress_type}; stored, deflated, bzip2 and LZMA are read"
                )
            with _damage():
                stream = packed.open(entry)
            with stream:
                yield Member(entry.filename, "100644", entry.file_size, stream)


def _of_tar(archive: Path) -> Iterator[Member]:
    with contextlib.ExitStack() as stack:
        with _damage():
            stream = stack.enter_context(_Unpacked(archive))
            packed = stack.enter_context(tarfile.open(fileobj=stream, mode="r:"))
        for count in itertools.count():
            _check_count(count)
            with _damage():
                entry = packed.next()
            if entry is None:
                return
            content = packed.extractfile(entry) if entry.isfile() else None
            if content is not None:
                mode = "100755" if entry.mode & 0o100 else "100644"
                yield Member(entry.name, mode, entry.size, content)


_TIMEOUT_SECONDS = 60
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.json", "*.jsonl", "*.parquet", "*.arrow", "*.md", "LICENSE*"]


_SGD_COMMIT = "e852981ae34990f4358979625854259302feaa78"

_OWN = {
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
    "personachat": DataSet(
        url="http://parl.ai/downloads/convai2/convai2_fix_723.tgz",
        archive="convai2_fix_723.tgz",
        keep=r"(?:.*/)?(\w+\.txt)",
        layout="train_self_original_no_cands.txt, valid_self_original_no_cands.txt, "
        "...",
        sha256="d0ae89defe2fd0b0a4221eaa642a457d7d40cef475f54798119c7f3b8dd9361d",
        top_folder=False,
        note="Persona-Chat as prepared for ConvAI2, in ParlAI's text format.",
    ),
}
DATA_SETS = extensions.Table[DataSet](_OWN, "datasets", made=datasets.registered)
"""Map from names to data sets."""

_ELSEWHERE = dict.fromkeys(
    ("fewshot", "snips", "multiwoz22", "multiwoz24"), "jaxaug-papers"
)


def find(name: str) -> DataSet:
    """Returns the data set with a name, or of the hub for `hf:OWNER/NAME`.

    Raises:
        UserError: the name is unknown, or its package is broken or not installed.
    """
    if name.startswith(hub.PREFIX):
        return DataSet(url=name)
    if name in DATA_SETS:
        return DATA_SETS[name]
    if name in _ELSEWHERE:
        raise missing_package(f"data set {name!r}", _ELSEWHERE[name])
    raise UserError(f"unknown data set {name!r}: {one_of(name, DATA_SETS, 'choose')}")


def fetch(data_set: DataSet, out: Path) -> list[Path]:
    """Gets a data set into the folder `out`: downloads, verifies, and unpacks it.

    A data set of the hub or in a local folder is copied. An archive is stored next to
    `out` until it is unpacked. An existing archive, such as one copied from another
    machine, is used instead of a download. A partial download is resumed. The contents
    are verified before any file of `out` changes. An existing file with other contents
    is kept as `<name>.replaced`; unrelated files stay.

    Returns:
        The files of the data set in `out`.

    Raises:
        UserError: the data set has no download, the network fails, or the download
            has another checksum.
    """
    out = Path(out)
    if not data_set.url:
        raise UserError(f"{out}: there is no download for it. {data_set.layout}")
    out.parent.mkdir(parents=True, exist_ok=True)
    if data_set.url.startswith(hub.PREFIX):
        return _files(data_set, out, Path(of_hub(data_set.url)))
    if "://" not in data_set.url:
        return _files(data_set, out, Path(data_set.url))
    archive = out.parent / data_set.archive
    check_ordinary(archive, "Remove it and run the command again.")
    brought_here = archive.exists()
    if not brought_here:
        _download(data_set, archive, out)
    try:
        files = _files(data_set, out, archive)
    except UserError:
        if not brought_here:
            archive.unlink()
        raise
    if not brought_here:
        archive.unlink()
    return files


def of_hub(name: str) -> epath.Path:
    """Returns the folder in the cache with the data set `hf:OWNER/NAME`.

    It is downloaded at its first use and pinned to that commit; see `hub.fetch`.

    Raises:
        UserError: the name is incomplete, or the data set is not in the cache and
            cannot be fetched.
    """
    hub_id = name.removeprefix(hub.PREFIX)
    if not _HUB_ID.fullmatch(hub_id):
        raise UserError(f"{name}: is no data set of the hub. Name it hf:OWNER/NAME.")
    folder = cache_dir() / "datasets" / hub_id.replace("/", "--")
    if os.environ.get(hub.OFFLINE_VARIABLE) and not (folder / pins.NOTE).exists():
        raise UserError(
            f"{name} is not on this machine, and --offline (${hub.OFFLINE_VARIABLE}) "
            f"forbids the download. Leave it out, or fill {folder} on a machine with a "
            "network and copy it here."
        )
    return hub.fetch(hub_id, "main", folder, [_HUB_FILES], repo_type="dataset")


def _files(data_set: DataSet, out: Path, source: Path) -> list[Path]:
    """Moves the files of an archive, or copies the files of a folder, to `out`."""
    with scratch_folder(out) as folder:
        place = Path(folder, "files")
        if source.is_dir():
            names = _copy(data_set, source, place)
        else:
            names = _unpack(data_set, source, place)
        if data_set.convert is not None:
            print(_converted(data_set.convert, place))
            names = _below(place)
        return [_move(place / name, out / name) for name in names]


def _below(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _copy(data_set: DataSet, source: Path, target: Path) -> list[str]:
    """Copies the files to keep; returns their names."""
    names = []
    for name in _below(source):
        match = re.fullmatch(data_set.keep, name)
        if match and not name.startswith(".") and name != pins.NOTE:
            (target / match[1]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, target / match[1])
            names.append(match[1])
    if not names:
        raise UserError(
            f"{source}: has no file of the data set. Name a folder with "
            f"{data_set.layout or 'files'}."
        )
    return names


def _converted(convert: datasets.Convert, folder: Path) -> object:
    """Replaces a folder of published files by its conversion to a data folder."""
    published = folder.with_name(f"{folder.name}.published")
    folder.rename(published)
    report = convert(published, folder, False)
    for path in published.glob("LICENSE*"):
        shutil.copy(path, folder)
    return report


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
            # A server that cannot resume answers 200 and sends the whole file.
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
        f"{url}: sends {size:,} bytes or more, at most {MAX_TOTAL:,} are taken. Check "
        "the address, or download the data set by hand."
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
    """Returns git's id of an object ("blob" or "tree"): a SHA-1 in hexadecimal."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def git_tree_id(blobs: Mapping[str, tuple[str, str]], folder: str) -> str:
    """Returns git's id of a folder.

    Args:
        blobs: path -> (mode, blob id) of all files in the folder and below.
        folder: path prefix without a trailing slash.
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


def run(arguments: Fetch) -> int:
    """Runs `jaxaug data fetch`."""
    data_set = find(arguments.name)
    if is_remote(arguments.out or ""):
        raise UserError(
            f"--out {arguments.out}: a download goes to a local folder. Name one, and "
            "copy it afterwards."
        )
    out = Path(arguments.out or Path("data") / arguments.name.rpartition("/")[2])
    files = fetch(data_set, out)
    print(f"{len(files)} files verified in {out}. {data_set.note}")
    return 0


def run_convert(arguments: Convert) -> int:
    """Runs `jaxaug data convert`."""
    convert = find(arguments.name).convert
    if convert is None:
        raise UserError(
            f"data set {arguments.name!r} needs no conversion. Name its folder with "
            "--data_dir."
        )
    for path in (arguments.source, arguments.out):
        if is_remote(path):
            raise UserError(f"{path}: name a local folder, and copy it afterwards.")
    source, out = Path(arguments.source), Path(arguments.out)
    if source.resolve() == out.resolve():
        raise UserError(f"--out {out}: is the folder that is read. Name another one.")
    print(convert(source, out, arguments.mentioned_only))
    print(f"written: {out}. Use it with --data_dir.")
    return 0
