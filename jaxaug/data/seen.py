"""Services in whose wordings a model was trained, so that it is not judged on them.

The file `seen_services.json` lies next to an adapter that was trained on SGD-X. It holds
a digest of each service as each schema words it, not the wordings themselves.
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
    """Stands for the name and all descriptions of a service, in their order."""
    described = [(service.name, service.description)]
    described += [(slot.name, slot.description) for slot in service.slots]
    described += [(intent.name, intent.description) for intent in service.intents]
    text = "\n".join(f"{name}\t{text}" for name, text in described)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def write(data_dir: PathLike, adapter: PathLike) -> epath.Path:
    """Notes next to an adapter that it has seen all wordings in a data folder.

    They are the wordings of every split, and of every variant of SGD-X in the folder.

    Returns:
        The file.

    Raises:
        UserError: a schema is missing or wrong, or the file cannot be written.
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
    """Returns the digests of what an adapter has seen; none where the file is missing.

    Raises:
        UserError: the file is no list of texts.
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
    """Returns the names of those services that are known, each once."""
    found = [service.name for service in services if digest(service) in known]
    return list(dict.fromkeys(found))
