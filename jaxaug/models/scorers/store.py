"""Store of computed scores: a table on disk that several processes share."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging
from etils import epath
from jaxtyping import Float

from jaxaug.core import cache_folder
from jaxaug.core.digests import code_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary
from jaxaug.core.progress import progress
from jaxaug.models.named import identities

Texts = tuple[str, ...]

_FILE = "scores.sqlite"
# Version of the table and its keys. Version 0 has no version and no code in the keys;
# version 1 has no digests.
_VERSION = 2
# Rows per statement; older builds of SQLite allow 999 variables.
_ROWS = 500
# Texts that are computed before they are stored: the most that an interruption loses.
_BLOCK = 512
_WAIT_SECONDS = 120.0


class Store:
    """Vectors of float32 by key, in one SQLite file.

    Each call opens the file again, so forked processes may use it. A writer waits for
    other writers.
    """

    def __init__(self, path: PathLike | None = None):
        """Takes a local file, created on first use; None is one in the cache.

        Raises:
            UserError: the path is not local.
        """
        self.path = os.fspath(path or cache_folder.cache_dir() / _FILE)
        if "://" in self.path:
            raise UserError(
                f"{self.path}: scores are kept in a local file. Set "
                f"${cache_folder.CACHE_DIR_VARIABLE} to a local folder."
            )

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Float[np.ndarray, " width"]]:
        """Returns the stored vectors of the keys; warns of damaged rows."""
        wanted = list(keys)
        found: dict[bytes, np.ndarray] = {}
        damaged = 0
        with self._open() as connection:
            for start in range(0, len(wanted), _ROWS):
                part = wanted[start : start + _ROWS]
                marks = ",".join("?" * len(part))
                query = f"SELECT * FROM scores WHERE key IN ({marks})"
                for key, vector, digest in connection.execute(query, part):
                    # Damage may have changed bytes to a number or to null.
                    if isinstance(vector, bytes) and _digest(key, vector) == digest:
                        found[key] = np.frombuffer(vector, "<f4")
                    else:
                        damaged += 1
        if damaged:
            logging.warning(
                "%s: %d scores are damaged and are computed again.", self.path, damaged
            )
        return found

    def put(self, vectors: Mapping[bytes, Float[np.ndarray, " width"]]) -> None:
        """Stores vectors: all of them, or none if the program is interrupted."""
        data = {k: np.asarray(v, "<f4").tobytes() for k, v in vectors.items()}
        rows = [(key, vector, _digest(key, vector)) for key, vector in data.items()]
        with self._open() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO scores VALUES (?, ?, ?)", rows
            )

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        epath.Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        check_ordinary(self.path, "Remove it.")
        try:
            connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
            connection.text_factory = bytes  # Text occurs only in damaged files.
            # `closing` closes the connection; the connection itself ends the
            # transaction.
            with contextlib.closing(connection), connection:
                self._prepare(connection)
                yield connection
        except sqlite3.OperationalError as error:
            raise UserError(
                f"{self.path}: cannot be used ({error}). Check that its disk has "
                "space, that you may write there, and that no other program holds it, "
                f"or set ${cache_folder.CACHE_DIR_VARIABLE} to another folder."
            ) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise UserError(
                f"{self.path}: cannot be used ({error}). Remove the file: it only "
                "holds scores that can be computed again."
            ) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Creates the table; a table of an earlier version is emptied."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise UserError(
                f"{self.path} has version {version}, but this program supports up to "
                f"{_VERSION}. Set ${cache_folder.CACHE_DIR_VARIABLE} to another "
                "folder, or remove the file: it only holds scores that can be "
                "computed again."
            )
        if version == _VERSION:
            return
        # Another process may be creating the table as well.
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version < _VERSION:
            connection.execute("DROP TABLE IF EXISTS scores")
            connection.execute(
                "CREATE TABLE scores (key BLOB PRIMARY KEY, vector BLOB NOT NULL, "
                "digest BLOB NOT NULL) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.commit()


def _digest(key: bytes, vector: bytes) -> bytes:
    """Returns a checksum that reveals changes by a disk or a copy."""
    return hashlib.blake2b(key + vector, digest_size=8).digest()


def key_of(identity: str, texts: Texts) -> bytes:
    """Returns the hash of a scorer and its texts."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (identity, *texts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def remembered(
    store: Store | None,
    identity: str,
    items: Sequence[Texts],
    compute: Callable[[Sequence[Texts]], Float[np.ndarray, "n width"]],
) -> Float[np.ndarray, "items width"]:
    """Returns the rows of `compute` for the items; it is called only for new items.

    Args:
        identity: identity of the scorer: everything that its results depend on, except
            the code of models and scorers, which is added here.
        compute: returns one row per item.
    """
    # Scores that other code computed are not the same scores.
    whose = f"{code_digest(*identities.network_code())} {identity}"
    keys = [key_of(whose, item) for item in items]
    by_key = dict(zip(keys, items, strict=True))
    found = store.get(by_key) if store else {}
    missing = [key for key in by_key if key not in found]
    starts = range(0, len(missing), _BLOCK)
    # Short work shows no progress bar, to avoid flicker below the shard bar.
    for start in progress(starts, desc="scores", unit="block", delay=2, leave=False):
        block = missing[start : start + _BLOCK]
        rows = np.asarray(compute([by_key[key] for key in block]), np.float32)
        new = dict(zip(block, rows, strict=True))
        if store:
            store.put(new)
        found |= new
    return np.stack([found[key] for key in keys]) if keys else np.zeros((0, 1), "<f4")
