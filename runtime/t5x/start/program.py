"""Flags and startup shared by train, eval, and infer."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gin
import jax
from absl import app, flags, logging
from jaxaug_base import libraries

from t5x import peers
from t5x.errors import UserError
from t5x.feed import registered
from t5x.logs.progress import announce
from t5x.start import (
    feature_lengths,
    gin_config,
    gin_hints,
    machine,
    macros,
    rehearsal,
)

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of all programs. JAX's own flags are parsed too."""
    macros.define_flags(FLAGS)
    flags.DEFINE_string(
        "tfds_data_dir", None, "TFDS folder that replaces the one of every task."
    )
    flags.DEFINE_list(
        "seqio_additional_cache_dirs",
        [],
        "More folders in which task caches are found.",
    )
    flags.DEFINE_integer("shard_id", None, "Overrides infer.shard_id (inference).")
    flags.DEFINE_bool(
        "dry_run", False, "Read and check the configuration, print it, and stop."
    )
    flags.DEFINE_bool(
        "accept_truncation",
        False,
        "Start although the feature lengths cut more than 1% of the inputs of a task, "
        "or targets.",
    )
    flags.DEFINE_bool(
        "multiprocess_gpu", False, "Join a run of several processes (GPU or CPU)."
    )
    flags.DEFINE_string("coordinator_address", None, "host:port of the first process.")
    flags.DEFINE_integer("process_count", None, "Number of processes.")
    flags.DEFINE_integer("process_index", None, "Number of this process, from 0.")
    flags.DEFINE_integer(
        "initialization_timeout", None, "Seconds to wait for the other processes."
    )
    machine.define_flags()
    # --help lists the flags of the running module, so these flags are registered for
    # it.
    for module in (__name__, machine.__name__, macros.__name__):
        for flag in FLAGS.get_flags_for_module(module):
            FLAGS.register_key_flag_for_module("__main__", flag)
            FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    jax.config.config_with_absl()
    # Hides TensorFlow's later notes; `libraries` handles the notes at its startup.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def run(function_of: Callable[[], Callable[..., Any]]) -> None:
    """Runs the function that `function_of` returns after flags are parsed."""
    macros.check(sys.argv)  # Other programs than t5x's own do not check them earlier.
    gin_config.run(lambda argv: _main(argv, function_of))


def _main(argv: Sequence[str], function_of: Callable[[], Callable[..., Any]]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Too many command-line arguments: {' '.join(argv[1:])}")
    flag_names = {arg.lstrip("-").partition("=")[0] for arg in sys.argv[1:]}
    if not flag_names & {"v", "verbosity"}:
        # Messages for users are announced; --verbosity=0 also shows notes of libraries.
        # (The flag's value is not reliable, because absl itself sets it.)
        logging.set_verbosity(logging.WARNING)
        libraries.begin()
    if not FLAGS.gin_file and not FLAGS.gin_bindings:
        raise UserError(
            "no --gin_file is given: name the gin file of an experiment, such as "
            "--gin_file=configs/d3st_aug.gin. --help lists all flags."
        )
    settings = machine.set_up(
        FLAGS.keep_memory, FLAGS.ynn_fusions, FLAGS.compilation_cache
    )
    _join_processes()
    # Registered under __main__, so that short names (`train.model_dir`) work as well as
    # `import __main__ as train_script`.
    with libraries.of_native_code():
        configured = gin.configurable(function_of())
    bindings = list(FLAGS.gin_bindings)
    if FLAGS["shard_id"].value is not None:
        bindings.append(f"infer.shard_id = {FLAGS['shard_id'].value}")
    with machine.quick(), libraries.of_native_code():
        gin_config.parse_gin_flags(
            macros.folders(FLAGS.gin_search_paths),
            FLAGS.gin_file,
            bindings,
        )
    if not FLAGS.dry_run:
        announce(settings)
    with libraries.of_native_code():
        _set_up_data_side()
    if FLAGS.dry_run:
        _check_names(bindings, configured)
        with libraries.of_native_code():
            rehearsal.run(configured, FLAGS.accept_truncation)
        announce("dry run: the configuration is valid; nothing was run.")
        return
    with libraries.of_native_code():
        # Datasets of a run may have any names, because `get_dataset_fn` may read them.
        _check_names((), configured, of_metric=True)
        arguments = feature_lengths.arguments_of(configured)
        feature_lengths.check(arguments, FLAGS.accept_truncation)
    configured(**arguments)
    jax.effects_barrier()


def _check_names(
    bindings: Sequence[str], configured: Callable[..., Any], of_metric: bool = False
) -> None:
    """Finds names that gin accepts but a run would reject or ignore.

    Args:
        of_metric: whether only the task of the metric, DEV_TASK, must be known.

    Raises:
        UserError: nothing refers to a macro, or a task or mixture is unknown.
    """
    problems = gin_hints.unused_bindings(bindings)
    readers = feature_lengths.arguments_of(
        configured, feature_lengths.READERS.__contains__, with_data=False
    )
    find = registered.finder(feature_lengths.reader_of(readers))
    if find or "seqio" in sys.modules:
        problems += gin_hints.unknown_mixtures(
            find or (lambda name: None), registered.names, of_metric
        )
    if problems:
        raise UserError("gin configuration: " + "\n".join(problems))


def _join_processes() -> None:
    """Initializes jax.distributed before anything touches a device."""
    given = {
        name: getattr(FLAGS, name)
        for name in ("coordinator_address", "process_count", "process_index")
    }
    if not FLAGS.multiprocess_gpu:
        used = [name for name, value in given.items() if value is not None]
        if used:
            raise UserError(f"--{used[0]} needs --multiprocess_gpu.")
        return
    extra = {}
    if FLAGS.initialization_timeout:
        extra["initialization_timeout"] = FLAGS.initialization_timeout
    jax.distributed.initialize(
        coordinator_address=given["coordinator_address"],
        num_processes=given["process_count"],
        process_id=given["process_index"],
        # JAX would end the other processes with a stack trace; `peers` must act
        # earlier.
        heartbeat_timeout_seconds=int(3 * peers.PATIENCE),
        **extra,
    )
    peers.start()


def _set_up_data_side() -> None:
    """Applies settings of seqio and TensorFlow, if gin files imported them."""
    if FLAGS.tfds_data_dir or FLAGS.seqio_additional_cache_dirs:
        import seqio

        if FLAGS.tfds_data_dir:
            seqio.set_tfds_data_dir_override(FLAGS.tfds_data_dir)
        seqio.add_global_cache_dirs(FLAGS.seqio_additional_cache_dirs)
    if "tensorflow" in sys.modules:
        # TensorFlow would otherwise allocate all GPU memory.
        sys.modules["tensorflow"].config.set_visible_devices([], "GPU")
