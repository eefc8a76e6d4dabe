"""Public names of gin helpers, for gin files."""
# ruff: noqa: F401

from t5x.start.gin_config import (
    bool_fn,
    get_gin_config_str,
    parse_gin_flags,
    run,
    string_split_fn,
    sum_fn,
    summarize_gin_config,
    user_message,
)
from t5x.start.gin_files import rewrite_gin_args
