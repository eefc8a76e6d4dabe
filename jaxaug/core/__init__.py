"""Common helpers of all packages in jaxaug; this package imports none of them.

It contains user errors, atomic files, digests, shards of long work, batches by length,
figures, and the cache folder.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "cache_folder": ["cache_dir"],
        "digests": ["code_digest", "digest_of", "file_digest"],
        "errors": ["UserError"],
        "files": [
            "new_folder",
            "read_json",
            "read_text",
            "replacing",
            "write_bytes",
            "write_text",
        ],
        "cached": ["publish", "published_file"],
        "shards": ["Shards", "Stage"],
    },
)
