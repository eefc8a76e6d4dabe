"""Reads the members of a .tar.gz or .zip that may be hostile.

Sizes in headers are compared with limits before a member is unpacked. Contents are read
in pieces. Errors of the libraries for damaged archives become `BrokenError`.
"""

import contextlib
import gzip
import hashlib
import itertools
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from jaxaug_base.files import naming

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
