"""Fixtures for all tests, such as real data and a small SGD folder."""

import atexit
import contextlib
import functools
import gc
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import rapidfuzz

from tests.support import extension, small_sgd

# A slow machine is not a fault of the test. Many examples of one run cost more than the
# new ones that each run draws.
hypothesis.settings.register_profile(
    "any machine",
    max_examples=30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")

# Compiling the small programs of tests takes longer than running them. Fusion emitters
# go through MLIR, which takes twice as long as emitting LLVM code directly. A program
# is compiled as one LLVM part, because each part sets up a compiler and there is one
# core. Programs that tests start inherit these flags; their own flags follow. With
# JAXAUG_TEST_PLAINLY=1 the tests run like programs of users: with normal optimizations
# and all checks of Flax.
# The base is also tested without JAX.
PLAINLY = os.environ.get("JAXAUG_TEST_PLAINLY") == "1" or not (
    importlib.util.find_spec("jaxlib")
)
if not PLAINLY:
    # XLA ends the process if it does not know a flag; jaxlib 0.12 lacks the emitters'.
    newer = [*map(int, metadata.version("jaxlib").split(".")[:2])] >= [0, 11]
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
        + ("" if newer else " --xla_cpu_use_fusion_emitters=false"),
    )


def _share_compiled_programs() -> None:
    """Shares one compilation cache between all workers and the programs of tests.

    The first process that loads this file creates the folder; workers inherit its name.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="jax_cache_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


_share_compiled_programs()


# Tests ask for the models that they need; no test downloads one by chance.
os.environ.setdefault("JAXAUG_OFFLINE", "1")


def _share_bytecode() -> None:
    """Moves the tests' bytecode to a temporary folder if Python writes none.

    Otherwise each worker, and each program that a test starts, compiles all libraries
    again, which takes 20 s of CPU time per worker.
    """
    if not sys.dont_write_bytecode:
        return
    folder = tempfile.mkdtemp(prefix="pycache_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # `python -B` does not set the variable
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    sys.pycache_prefix = folder
    sys.dont_write_bytecode = False


_share_bytecode()


def _take_own_cores() -> None:
    """Distributes the cores among the workers of pytest-xdist.

    XLA and TensorFlow start a thread for each visible core, and the threads of several
    workers slow each other down: two workers that see all cores take 1.7 times the CPU
    time. Programs that tests start inherit the choice.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        number = int(worker.removeprefix("gw"))
        os.sched_setaffinity(0, cores[number::count] or cores)


_take_own_cores()


def _do_without_triton() -> None:
    """Hides Triton from PyTorch, because it crashes Python if TensorFlow is loaded.

    PyTorch with CUDA brings Triton. Triton and TensorFlow each contain a copy of LLVM.
    PyTorch works without Triton, and the tests compile nothing with it.
    """
    sys.modules.setdefault("triton", None)  # type: ignore[arg-type]


def _import_in_turns() -> None:
    """Imports libraries in a different order in each worker.

    A fresh environment has no bytecode. Workers that import the same modules at the
    same time would all compile them. With different orders each module is compiled by
    one worker, and the others read its bytecode.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        libraries = ["tensorflow", "seqio", "torch", "transformers"]
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        first = int(worker.removeprefix("gw")) * len(libraries) // count
        for name in libraries[first:] + libraries[:first]:
            with contextlib.suppress(
                ImportError
            ):  # The tests that need it are skipped.
                importlib.import_module(name)


# Imported objects, about a million, stay alive; the collector would walk them
# repeatedly.
gc.disable()
_do_without_triton()
_import_in_turns()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests of real data as long, and sorts files with slow tests to the front.

    Workers take whole files, so the fixtures and programs of a file are built once.
    With slow files first no worker ends late.
    """
    for item in items:
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.long)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Hides imported objects from the garbage collector, a tenth of the CPU time.

    The collector would walk a million objects of libraries again and again while JAX
    traces.
    """
    if not PLAINLY:
        from tests.support import flax_checks, mlir_contexts

        flax_checks.once()
        mlir_contexts.shared()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    gc.enable()


@pytest.fixture(scope="session")
def python() -> Iterator[str]:
    """Returns a command that acts as `sys.executable`, with preloaded libraries."""
    program = Path(__file__).parent / "support" / "warm_python.py"
    with tempfile.TemporaryDirectory() as folder:  # The path of a socket must be short.
        line, command = Path(folder, "line"), Path(folder, "python")
        call = shlex.join([sys.executable, "-IS", str(program), str(line)])
        command.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
        command.chmod(0o755)
        with subprocess.Popen(
            [sys.executable, str(program), str(line)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as server:
            while not line.exists() and server.poll() is None:
                time.sleep(0.01)
            yield str(command)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Returns the folder with `sgd/` and `text/`; skips the test without it."""
    folder = os.environ.get("JAXAUG_REAL_DATA")
    if not folder:
        pytest.skip("real data is not there: JAXAUG_REAL_DATA is unset")
    return Path(folder)


@pytest.fixture(scope="session")
def tiny_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a byte-level Llama with random weights.

    Ids are 0 `<|begin|>`, 1 `<|end|>` (special), then the 256 bytes.
    """
    import numpy as np
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    from jaxaug.models import llama
    from jaxaug.models.weights import families, hf_folder

    folder = tmp_path_factory.mktemp("tiny_lm") / "model"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<|begin|>", "<|end|>", *alphabet]
    bpe = models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[])
    backend = tokenizers.Tokenizer(bpe)
    backend.add_special_tokens(names[:2])
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    made = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    backend.save(str(made))

    config = llama.Config(
        vocab_size=len(names), emb_dim=16, num_layers=1, num_heads=2, head_dim=8,
        mlp_dim=24, num_kv_heads=1, tie_embeddings=True,
    )  # fmt: skip
    hf_config = llama.to_hf(config) | {"bos_token_id": 0, "eos_token_id": 1}
    family = families.of_config(hf_config, "tiny")
    shapes = family.variables(family.build(config))["params"]
    rng = np.random.default_rng(0)
    params = _drawn(shapes, rng)
    # A line break is likely, so that some outputs end early.
    table = params["decoder"]["token_embedder"]["embedding"]
    table[names.index("\u010a")] *= 2.5
    hf_folder.write(
        folder, params, family.key_map(config), hf_config,
        hf_folder.Card(name="tiny", source="random"), {"tokenizer.json": made},
    )  # fmt: skip
    return folder


def _drawn(shapes: Any, rng: Any) -> Any:
    if hasattr(shapes, "items"):
        return {name: _drawn(part, rng) for name, part in shapes.items()}
    return 0.5 * rng.standard_normal(shapes.shape).astype("float32")


@pytest.fixture
def sgd_tree(tmp_path: Path) -> Path:
    """Returns a folder in SGD layout: Trains_1 in all splits, Parks_1 in dev and test.

    Variants v1..v5 append the variant's digit to service names, and `_v<digit>` to slot
    and intent names. Parks_1 has a slot called `intent`.
    """
    return small_sgd.write(tmp_path / "sgd_tree")


_RUN_CONFIG = """from __gin__ import dynamic_registration
from jaxaug.feed import vocabulary
from t5x import models
from t5x.examples.t5 import network

MIXTURE_OR_TASK_NAME = 'd3st_sgd'
TASK_FEATURE_LENGTHS = {{'inputs': 40, 'targets': 12}}
MODEL = @models.EncoderDecoderModel()
models.EncoderDecoderModel:
  module = @network.Transformer()
  input_vocabulary = @vocabulary.TokenVocabulary()
  output_vocabulary = @vocabulary.TokenVocabulary()
  optimizer_def = None
network.Transformer.config = @network.T5Config()
network.T5Config:
  vocab_size = {size}
  emb_dim = 8
  num_heads = 2
  num_encoder_layers = 1
  num_decoder_layers = 1
  head_dim = 4
  mlp_dim = 8
  dtype = 'float32'
"""


@pytest.fixture(scope="session")
def _tracker_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the run of `trained`, which tests must not change."""
    import flax
    import jax
    from t5x import checkpoints, models, partitioning, train_state
    from t5x.examples.t5 import network

    from jaxaug.feed import run_vocabulary, vocabulary

    folder = tmp_path_factory.mktemp("tracker") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_CACHE_DIR", str(folder.parent / "cache"))
        data = small_sgd.write(folder.parent / "sgd_tree")
        words = vocabulary.TokenVocabulary(vocabulary.train_words(data))
    run_vocabulary.keep(folder, words.path)
    text = _RUN_CONFIG.format(size=words.vocab_size)
    (folder / "config.gin").write_text(text)
    module = network.Transformer(
        network.T5Config(
            vocab_size=words.vocab_size, emb_dim=8, num_heads=2, num_encoder_layers=1,
            num_decoder_layers=1, head_dim=4, mlp_dim=8, dtype="float32",
        )
    )  # fmt: skip
    model = models.EncoderDecoderModel(module, None, None, None)
    names = ("encoder_input_tokens", "decoder_input_tokens", "decoder_target_tokens")
    init = functools.partial(
        model.get_initial_variables, input_shapes=dict.fromkeys(names, (1, 4))
    )
    variables = jax.jit(init)(jax.random.PRNGKey(3))
    state = train_state.InferenceState.create(flax.core.freeze(variables))
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    checkpoints.Checkpointer(state, partitioner, folder).save(state)
    return folder


@pytest.fixture
def trained(
    _tracker_run: Path, sgd_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """Returns the folders of a tracker's run with random weights, and of its data."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    return shutil.copytree(_tracker_run, tmp_path / "run"), sgd_tree


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A scripted chat server for a new process: no key, no replies in the cache."""
    from jaxaug.models.endpoint import asking
    from tests.support import chat_server

    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(asking, "FIRST_WAIT", 0.01)
    asking.of.cache_clear()
    with chat_server.running() as running:
        yield running


@pytest.fixture
def edit_json() -> Callable[[Path, Callable[[Any], Any]], None]:
    """Returns `edit_json(path, change)`, which rewrites a JSON file.

    `change` edits the value in place.
    """

    def edit(path: Path, change: Callable[[Any], Any]) -> None:
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return edit


@pytest.fixture
def page() -> Iterator[Any]:
    """Returns a page of headless Chromium; skips the test without a browser."""
    sync_api = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser")
    browser_path = next(filter(None, map(shutil.which, names)), None)
    if not browser_path:
        pytest.skip("no Chromium here: `apt-get install chromium` brings one")
    # The sandbox of Chromium refuses to run as root, as in most containers.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=flags)
        page = browser.new_page()
        page.set_default_timeout(20_000)
        yield page
        browser.close()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Returns `install(name, {group: {entry: value}}, source)`, which acts like pip."""
    return functools.partial(extension.install, tmp_path, monkeypatch)


class _JudgeNetwork:
    """A network of the judge without weights: common words are good."""

    def log_odds(self, pairs):
        """Returns large odds for similar texts."""
        return 80 * self.similarity(pairs) - 40

    def similarity(self, pairs):
        """Returns the similarity of the letters of sorted words."""
        measure = rapidfuzz.fuzz.token_sort_ratio
        found = [measure(one.original, one.candidate) for one in pairs]
        return np.array(found) / 100

    def likelihoods(self, pairs):
        """Returns small log-likelihoods, in both directions, for other texts."""
        return np.tile(40 * self.similarity(pairs)[:, None] - 40, 2)


@pytest.fixture
def judge_network(monkeypatch):
    """Replaces the models of the judge, which need weights, by measures of words."""
    from jaxaug.augment.judge import likelihood, network

    made = _JudgeNetwork()
    monkeypatch.setattr(likelihood, "both", made.likelihoods)
    monkeypatch.setattr(likelihood, "identity", lambda: "words")
    monkeypatch.setattr(network, "load", lambda: made)
    monkeypatch.setattr(network, "files", lambda: ())
    return made
