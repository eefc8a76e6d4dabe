"""Archives that must end in a message."""

import gzip
import io
import tarfile
import zipfile

FILES = {
    "repo-1/data/a.json": b"one\n",
    "repo-1/data/sub/b.json": b"two\n",
    "repo-1/data/sub.d/c.json": b"",
    "repo-1/data/sub0": b"run",
    "repo-1/README.md": b"not kept",
}


def zip_with(**changes):
    """A zip whose first member has other fields in its headers."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        first = archive.infolist()[0]
        for name, value in changes.items():
            setattr(first, name, value)
    return buffer.getvalue()


def tar_of(*infos, content=b"x" * 1024):
    """A tar whose members are shorter than their headers claim."""
    members = (info.tobuf(tarfile.GNU_FORMAT) + content for info in infos)
    return gzip.compress(b"".join(members) + bytes(tarfile.RECORDSIZE))


def info(name, size, **fields):
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info


HOSTILE = {
    "zip that declares 3 GB": (zip_with(file_size=3 * 10**9),
     ("repo-1/data/a.json has 3,000,000,000 bytes, at most 1,000,000,000 are "
     "unpacked")),
    "encrypted zip": (zip_with(flag_bits=1), "repo-1/data/a.json is encrypted"),
    "unknown compression": (zip_with(compress_type=93),
     "repo-1/data/a.json has compression method 93"),
    "wrong size in a zip": (zip_with(file_size=2, CRC=0), "Bad CRC-32"),
    "tar that declares 3 GB": (tar_of(info("repo-1/data/a.json", 3 * 10**9)),
     "repo-1/data/a.json has 3,000,000,000 bytes"),
    "tar that ends before its member": (tar_of(info("repo-1/data/a.json", 900_000_000)),
     "data/a.json has 11,?264 bytes, its header says 900,?000,?000|unexpected end"),
    "a name of 3 GB": (tar_of(info("././@LongLink", 3 * 10**9,
     type=tarfile.GNUTYPE_LONGNAME)), "a header of 3,?000,?000,?\\d+ bytes"),
    "two members of one name": (tar_of(info("repo-1/data/a.json", 1024),
     info("repo-1/data/a.json", 1024)),
     "data/a.json takes the place of another member"),
    "a file in place of a folder": (tar_of(info("repo-1/data/a.json", 1024),
     info("repo-1/data/a.json/b.json", 1024)), "Not a directory|File exists"),
}  # fmt: skip
