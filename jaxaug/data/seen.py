"""Records the service wordings in the training data, to exclude them from evaluation.

The file `seen_services.json` is next to an adapter that was trained on SGD-X. It
contains a digest of each wording of each service, not the wordings themselves.
"""

import hashlib
import json
from collections.abc import Iterable

from etils import epath

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, write_bytes
from jaxaug.data import folders
from jaxaug.data.schema import Service, read_schema

FILE = "seen_services.json"
_LENGTH = 16


def digest(service: Service) -> str:
    """Returns a digest of the name and the ordered descriptions of a service."""
    described = [(service.name, service.description)]
    described += [(slot.name, slot.description) for slot in service.slots]
    described += [(intent.name, intent.description) for intent in service.intents]
    text = "\n".join(f"{name}\t{text}" for name, text in described)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def write(data_dir: PathLike, adapter: PathLike) -> epath.Path:
    """Records that an adapter was trained on all wordings in a data folder.

    They are the wordings of every split and of every SGD-X variant in the folder.

    Returns:
        The path of the written file, next to the adapter.

    Raises:
        UserError: a schema is missing or invalid, or the file cannot be written.
    """
    folder = folders.variant_folders(data_dir)["sgdx"]
    paths = [folders.schema_path(data_dir, split) for split in folders.SPLITS]
    if folder.is_dir():
        paths += [
            folders.variant_schema_path(folder, variant, split)
            for variant in folders.variant_names(folder)
            for split in folders.variant_splits(folder, variant)
        ]
    found = {
        digest(service) for path in paths for service in read_schema(path).services
    }
    target = epath.Path(adapter) / FILE
    write_bytes(target, (json.dumps(sorted(found), indent=0) + "\n").encode())
    return target


def read(adapter: PathLike) -> frozenset[str]:
    """Returns the digests of the services that an adapter has seen.

    The result is empty if the file is missing.

    Raises:
        UserError: the file is not a list of strings.
    """
    path = epath.Path(adapter) / FILE
    if not path.exists():
        return frozenset()
    try:
        found = json_reader.decoded(read_text(path, "Get the adapter again."))
    except json_reader.JsonError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise UserError(f"{path}: is no list of texts. Get the adapter again.")
    return frozenset(found)


def names(services: Iterable[Service], known: frozenset[str]) -> list[str]:
    """Returns the distinct names of the services whose digests are in `known`."""
    found = [service.name for service in services if digest(service) in known]
    return list(dict.fromkeys(found))
