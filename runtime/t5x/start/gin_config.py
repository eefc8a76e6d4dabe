"""gin for the programs: flags, readable errors, and small configurables."""

import atexit
import hashlib
import json
import logging as std_logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gin
import jax
import jaxaug_base.errors
from absl import app, logging
from etils import epath
from jaxaug_base.files import FULL, replacing

from t5x import peers
from t5x.errors import UserError
from t5x.logs.progress import announce
from t5x.start import gin_files as gin_files_lib
from t5x.start import gin_hints
from t5x.training.trainer import PreemptionError

DIGEST_FILE = "config_digest.json"


@gin.configurable(module="t5x.gin_utils")
def get_gin_config_str(show_provenance: bool = False) -> str:
    """Returns the current configuration as a gin file.

    Raises:
        UserError: the installed gin does not support provenance (such as 0.5.0).
    """
    if not show_provenance:
        return gin.config_str()
    try:
        return gin.config_str(show_provenance=True)
    except TypeError:
        raise UserError(
            "get_gin_config_str.show_provenance = True: the installed gin-config "
            "keeps no provenance. Set it to False, or install a version that does."
        ) from None


def parse_gin_flags(
    gin_search_paths: Sequence[str],
    gin_files: Sequence[str] | None,
    gin_bindings: Sequence[str],
    skip_unknown: bool | Sequence[str] = False,
    finalize_config: bool = True,
) -> None:
    """Parses gin files and bindings; later ones win.

    Args:
        gin_search_paths: folders in which files and includes are looked up, in order.
        skip_unknown: whether to ignore bindings of unknown configurables (all, or those
            listed).
        finalize_config: whether to lock the configuration afterwards.

    Raises:
        UserError: the configuration has a mistake; the message names the nearest known
            name.
    """
    std_logging.getLogger().addFilter(_is_worth_showing)
    for path in gin_search_paths:
        gin.add_config_file_search_path(path)
    texts: dict[str, str] = {}
    try:
        for binding in gin_bindings:
            gin_files_lib.check_binding(binding)
        with gin_files_lib.checked() as texts:
            gin.parse_config_files_and_bindings(
                list(gin_files or []),
                list(gin_bindings),
                skip_unknown=skip_unknown,
                finalize_config=finalize_config,
            )
    except Exception as error:
        if isinstance(error, jaxaug_base.errors.UserError):
            message: str | None = str(error)
        else:
            message = gin_hints.explain(error, texts)
        if message is None:
            raise
        raise UserError(f"gin configuration: {message}") from error
    for warning in gin_hints.unused_bindings(gin_bindings):
        announce(f"warning: {warning}")
    logging.info("Gin configuration:")
    for line in get_gin_config_str().splitlines():
        logging.info("%s", line)


def _is_worth_showing(record: std_logging.LogRecord) -> bool:
    # gin logs an error for every folder in which it does not find a file.
    return "gin/resource_reader.py" not in record.pathname


def config_digest(config: bytes) -> str:
    """Returns the digest of a `config.gin`."""
    return hashlib.blake2b(config, digest_size=16).hexdigest()


@gin.register(module="t5x.gin_utils")
def summarize_gin_config(model_dir: str, summary_writer: Any, step: int) -> None:
    """Writes the configuration to `<model_dir>/config.gin` and to TensorBoard.

    In training, its digest goes to `<model_dir>/config_digest.json`, to detect later
    changes.
    """
    if jax.process_index() != 0:
        return
    config = get_gin_config_str()
    folder = epath.Path(model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    digest = json.dumps({"digest": config_digest(config.encode())}) + "\n"
    texts = {"config.gin": config}
    if summary_writer is not None:
        texts[DIGEST_FILE] = digest
    for name, text in texts.items():
        with replacing(folder / name) as temporary:
            temporary.write_text(text)
    if summary_writer is not None:
        summary_writer.write_texts(step, {"config": gin.markdown(config)})
        summary_writer.flush()


def run(main: Callable[[Sequence[str]], Any]) -> None:
    """Runs a program under absl, with gin flags.

    User mistakes (`UserError`), errors in the gin configuration, and operating-system
    errors (missing file, full disk) are printed as one message, with exit status 1. A
    run stopped by SIGTERM ends with status 0, or with $T5X_STOPPED_STATUS, which tells
    a supervisor that the run is not complete. All other errors are defects and keep
    their traceback.
    """
    ended: list[int] = []

    def leave() -> None:
        # An exit during an evaluation leaves threads inside TensorFlow, in which the
        # teardown of the interpreter crashes.
        if ended:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended[0])

    # Registered before all that the program registers, so that it comes after that.
    atexit.register(leave)

    def parse(args: list[str]) -> Sequence[str]:
        try:
            return app.parse_flags_with_usage(gin_files_lib.rewrite_gin_args(args))
        except jaxaug_base.errors.UserError as error:
            _fail(error)

    def guarded(argv: Sequence[str]) -> Any:
        try:
            return main(argv)
        except PreemptionError as error:
            announce(gin_hints.message_of(error))
            ended.append(_stopped_status())
            sys.exit(ended[0])
        except Exception as error:
            message = user_message(error)
            if message is None:
                peers.wait_for_cause(error)
                raise
            ended.append(1)
            _fail(message)

    app.run(guarded, flags_parser=parse)


def _stopped_status() -> int:
    text = os.environ.get("T5X_STOPPED_STATUS", "0")
    if not text.isascii() or not text.isdigit() or int(text) > 255:
        announce(f"warning: T5X_STOPPED_STATUS={text} is no exit status (0 to 255).")
        return 0
    return int(text)


def user_message(error: BaseException) -> str | None:
    """Returns the message for an error that is not a defect, else None."""
    if (message := gin_hints.explain_call(error)) is not None:
        return message
    if isinstance(error, OSError) and error.errno in FULL and error.filename:
        return (
            f"{error.filename}: {error.strerror}. Free some space, then run the same "
            "command again."
        )
    if isinstance(error, (jaxaug_base.errors.UserError, OSError)):
        return gin_hints.message_of(error)
    # TensorFlow is not imported here; its error for a missing file has this name.
    if type(error).__name__ == "NotFoundError" and hasattr(error, "error_code"):
        what = gin_hints.message_of(error).splitlines()[0]
        return (
            f"a file that was read is gone: {what} If it is in a cache folder, run "
            f"the same command again: caches are made again. Restore other data first."
        )
    if isinstance(error, MemoryError):
        return (
            f"the memory is full ({str(error) or type(error).__name__}). Use shorter "
            f"lengths or a smaller batch, or a machine with more memory."
        )
    return None


def _fail(message: Any) -> NoReturn:
    print(f"error: {message}", file=sys.stderr, flush=True)
    sys.exit(1)


@gin.configurable(module="t5x.gin_utils")
def sum_fn(var1: Any = gin.REQUIRED, var2: Any = gin.REQUIRED) -> Any:
    """Returns `var1 + var2`, for use in gin files."""
    return var1 + var2


@gin.configurable(module="t5x.gin_utils")
def bool_fn(var1: Any = gin.REQUIRED) -> bool:
    """Returns `bool(var1)`, for use in gin files."""
    return bool(var1)


@gin.configurable(module="t5x.gin_utils")
def string_split_fn(
    text: Any = gin.REQUIRED,
    separator: Any = gin.REQUIRED,
    maxsplit: int = -1,
    index: int | None = None,
) -> Any:
    """Returns `text.split(separator, maxsplit)` or one part, for use in gin files."""
    parts = text.split(separator, maxsplit)
    return parts if index is None else parts[index]
