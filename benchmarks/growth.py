"""Growth of time and memory of programs with the amount of data, as exponents.

    python benchmarks/growth.py [WORK ...] [--sizes N ...] [--run RUN] [--data_dir DIR]

Each size is generated, and each program starts as a user starts it. The table has CPU
seconds and peak memory of the program, starts and imports included, and their ratios
to the smallest size. An exponent is the slope of a line through the logarithms, by
least squares: 0 is flat, 1 is proportional. The start flattens it, so the exponent
between the two greatest sizes follows in parentheses.

Works, and what their size counts:

- evaluate: `evaluate sgd`; copies of the test split of a data folder;
- augment: `augment` by the grammar without a model; descriptions;
- dry_run: `sensitivity --dry_run` with rewordings by the grammar; tools;
- sensitivity: `sensitivity` of five wordings at a scripted server; tools and cases;
- import: `schema import` of an OpenAPI document, 10 MB for 1,200; operations;
- serve: `serve RUN` up to an answer about one of its services; services.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

_ID = '"dialogue_id": "'
_OPERATION_BYTES = 8_700
Line = list[str]


class Work(NamedTuple):
    """A program whose growth is measured.

    Attributes:
        sizes: default sizes, ascending.
        prepare: (empty folder, size, options) -> arguments of `jaxaug`.
    """

    sizes: tuple[int, ...]
    prepare: Callable[[Path, int, argparse.Namespace], Line]


def evaluate(folder: Path, size: int, options: argparse.Namespace) -> Line:
    """Writes copies of a test split, and their annotation in a file as predictions."""
    source = Path(options.data_dir or _minisgd())
    for part in ("train", "test", "predictions"):
        (folder / part).mkdir()
    for split in ("train", "test"):
        shutil.copy(source / split / "schema.json", folder / split)
    lines = []
    for path in sorted((source / "test").glob("dialogues_*.json")):
        text = path.read_text()
        lines += [json.dumps(_prediction(one)) for one in json.loads(text)]
        for copy in range(size):
            name = f"dialogues_{copy:03}{path.name.removeprefix('dialogues_')}"
            renamed = text.replace(_ID, f"{_ID}{copy}_")
            (folder / "test" / name).write_text(renamed)
    repeated = (
        line.replace(_ID, f"{_ID}{copy}_", 1) for copy in range(size) for line in lines
    )
    text = "[\n" + ",\n".join(repeated) + "\n]\n"
    (folder / "predictions" / "dialogues.json").write_text(text)
    words = ["evaluate", "sgd", "--data_dir", str(folder), "--split", "test"]
    words += ["--predictions", str(folder / "predictions")]
    return [*words, "--output", str(folder / "report.json")]


def _minisgd() -> str:
    program = "from jaxaug.data.folders import resolve_data_dir as f; print(f())"
    return subprocess.check_output([sys.executable, "-c", program], text=True).strip()


def _prediction(dialogue: dict) -> dict:
    turns = [
        {
            "speaker": turn["speaker"],
            "utterance": turn["utterance"],
            "frames": [
                {"service": frame["service"], "state": frame["state"]}
                for frame in turn["frames"]
                if "state" in frame
            ],
        }
        for turn in dialogue["turns"]
    ]
    return dialogue | {"turns": turns}


@cache
def _corpus() -> tuple[str, ...]:
    """Returns distinct descriptions of slots."""
    program = (
        "import json; from jaxaug.data import rewordings\n"
        "texts = [r.text for r in rewordings.records() if r.kind == 'slot']\n"
        "print(json.dumps(list(dict.fromkeys(texts))))"
    )
    return tuple(json.loads(subprocess.check_output([sys.executable, "-c", program])))


def _texts() -> Iterator[str]:
    """Yields distinct descriptions: the corpus, then each text with a number."""
    yield from _corpus()
    for number in count(2):
        yield from (f"{text} {number}" for text in _corpus())


def services(number: int) -> list[dict[str, Any]]:
    """Returns services with two slots and an intent, all with distinct descriptions."""
    texts = _texts()
    return [
        {
            "service_name": f"Service{place}_1",
            "description": next(texts),
            "slots": [_slot(name, next(texts)) for name in ("first", "second")],
            "intents": [
                {
                    "name": "FindIt",
                    "description": next(texts),
                    "is_transactional": False,
                    "required_slots": ["first"],
                    "optional_slots": {"second": "dontcare"},
                    "result_slots": ["first", "second"],
                }
            ],
        }
        for place in range(number)
    ]


def _slot(name: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": text,
        "is_categorical": False,
        "possible_values": [],
    }


def augment(folder: Path, size: int, options: argparse.Namespace) -> Line:
    """Writes a data folder whose train split has `size` descriptions."""
    (folder / "data/train").mkdir(parents=True)
    text = json.dumps(services(-(-size // 4)))
    (folder / "data/train/schema.json").write_text(text)
    words = ["augment", "--config", "configs/augment/grammar.py"]
    return [*words, "--data_dir", f"{folder}/data", "--out", f"{folder}/out"]


def tools(number: int, texts: Iterator[str]) -> dict[str, Any]:
    """Returns a list of tools with one argument each."""
    return {
        "tools": [
            {
                "name": f"tool_{place}",
                "description": next(texts),
                "inputSchema": {
                    "type": "object",
                    "required": ["first"],
                    "properties": {
                        "first": {"type": "string", "description": next(texts)}
                    },
                },
            }
            for place in range(number)
        ]
    }


def _asked(folder: Path, size: int) -> Line:
    """Writes tools, and a case for each, which lists ten of them."""
    (folder / "tools.json").write_text(json.dumps(tools(size, _texts())))
    cases = [
        {
            "messages": [{"role": "user", "content": f"Use number {place}"}],
            "calls": [{"name": f"tool_{place}", "arguments": {"first": "1"}}],
            "tools": [f"tool_{(place + step) % size}" for step in range(10)],
        }
        for place in range(size)
    ]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)) + "\n")
    words = ["sensitivity", "--schema", f"{folder}/tools.json", "--repeats", "1"]
    return [*words, "--in", f"{folder}/cases.jsonl", "--model", "openai:NAME"]


def dry_run(folder: Path, size: int, options: argparse.Namespace) -> Line:
    """Writes tools that the grammar rewords."""
    words = _asked(folder, size)
    return [*words, "--endpoint", "http://127.0.0.1:1/v1", "--dry_run"]


def sensitivity(folder: Path, size: int, options: argparse.Namespace) -> Line:
    """Writes tools with five other wordings."""
    words = [*_asked(folder, size), "--endpoint", options.server, "--wordings_from"]
    for number in range(5):
        others = islice(_texts(), 7 * (number + 1), None)
        (folder / f"w{number}.json").write_text(json.dumps(tools(size, others)))
        words.append(f"{folder}/w{number}.json")
    return [*words, "--json", f"{folder}/report.json"]


def _server() -> str:
    """Starts a server that calls the first tool of a request; returns its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = body["tools"][0]["function"]["name"]
            call = {"name": name, "arguments": '{"first": "1"}'}
            calls = [{"id": "1", "type": "function", "function": call}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            text = json.dumps({"choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def import_(folder: Path, size: int, options: argparse.Namespace) -> Line:
    """Writes an OpenAPI document in which each operation has its own large schema."""
    texts = _texts()
    paths: dict[str, Any] = {}
    components: dict[str, Any] = {}
    for place in range(size):
        properties: dict[str, Any] = {}
        written = 0
        while written < _OPERATION_BYTES:
            text = next(texts)
            name = f"field_{len(properties)}"
            properties[name] = {"type": "string", "description": text, "maxLength": 99}
            written += len(json.dumps({name: properties[name]}))
        properties["near"] = {"$ref": f"#/components/schemas/Part{place // 2}"}
        components[f"Part{place}"] = {
            "type": "object",
            "properties": {"own": {"type": "integer", "description": next(texts)}},
        }
        schema = {"type": "object", "required": ["field_0"], "properties": properties}
        paths[f"/things/{place}"] = {
            "post": {
                "operationId": f"doThing{place}",
                "tags": [f"group{place // 10}"],
                "summary": next(texts),
                "requestBody": {"content": {"application/json": {"schema": schema}}},
                "responses": {"200": {"description": "done"}},
            }
        }
    document = {
        "openapi": "3.0.3",
        "info": {"title": "Things", "version": "1"},
        "paths": paths,
        "components": {"schemas": components},
    }
    (folder / "api.json").write_text(json.dumps(document))
    words = ["schema", "import", f"{folder}/api.json", "--out", f"{folder}/schema.json"]
    return [*words, "--losses", f"{folder}/losses.json"]


def serve(folder: Path, size: int, options: argparse.Namespace) -> Line:
    """Writes a schema of services for the tracker of a run."""
    if not options.run:
        raise SystemExit("serve: give the folder of a run with --run.")
    (folder / "schema.json").write_text(json.dumps(services(size)))
    words = ["serve", options.run, "--schema", f"{folder}/schema.json"]
    return [*words, "--port", "0"]


WORKS = {
    "evaluate": Work((1, 2, 4, 8), evaluate),
    "augment": Work((50, 500, 1500), augment),
    "dry_run": Work((10, 100, 1000), dry_run),
    "sensitivity": Work((10, 100, 1000), sensitivity),
    "import": Work((120, 400, 1200), import_),
    "serve": Work((10, 100, 1000), serve),
}


def measure(words: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Runs `jaxaug`; returns CPU seconds and peak memory in MiB.

    Linux adds the peak of this process, which is small: `_prepared` uses another one.

    Raises:
        SystemExit: the program failed.
    """
    command = [sys.executable, "-m", "jaxaug", *words]
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, close_fds=False
    )
    assert child.stdout
    if words[0] == "serve":
        for line in child.stdout:
            if found := re.search(r"http://[\w.:\[\]]+", line):
                _ask(found[0])
                break
        child.send_signal(signal.SIGINT)
    child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, *((-2, 130) if words[0] == "serve" else ())):
        raise SystemExit(f"{' '.join(command)}: status {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _ask(address: str) -> None:
    asked = {"dialogue": "USER: i need it", "services": ["Service3_1"]}
    request = urllib.request.Request(
        f"{address}/api/predict",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    for path in (request, f"{address}/api/schemas"):
        with urllib.request.urlopen(path) as answer:
            answer.read()


def _prepared(work: Work, *arguments: Any) -> Line:
    """Calls `work.prepare` in another process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work.prepare, *arguments).result()


def exponents(sizes: Sequence[int], values: Sequence[float]) -> str:
    """Returns the exponents of all sizes and of the two greatest."""
    import numpy as np

    x, y = np.log(sizes), np.log(values)
    every, last = np.polyfit(x, y, 1)[0], np.polyfit(x[-2:], y[-2:], 1)[0]
    return f"{every:.2f} ({last:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--data_dir", help="of `evaluate` (default: MiniSGD)")
    parser.add_argument("--run", help="run of `serve`")
    parser.add_argument("--sizes", type=int, nargs="+", help="instead of the defaults")
    options = parser.parse_args()
    options.server = _server() if "sensitivity" in (options.works or WORKS) else ""
    print("work             size   CPU s  ratio   peak MiB  ratio")
    for name in options.works or WORKS:
        work = WORKS[name]
        sizes = options.sizes or work.sizes
        found: list[tuple[float, float]] = []
        for size in sizes:
            with tempfile.TemporaryDirectory() as place:
                environment = os.environ | {"JAXAUG_CACHE_DIR": f"{place}/cache"}
                if models := os.environ.get("JAXAUG_CACHE_DIR"):
                    environment["JAXAUG_CACHE_DIR"] = models
                folder = Path(place, "data")
                folder.mkdir()
                words = _prepared(work, folder, size, options)
                if name == "serve" and not found:  # Compiled programs stay.
                    measure(words, environment)
                found.append(measure(words, environment))
            seconds, peak = found[-1]
            print(
                f"{name:12} {size:8,} {seconds:7.2f} {seconds / found[0][0]:6.2f} "
                f"{peak:10.0f} {peak / found[0][1]:6.2f}",
                flush=True,
            )
        if len(sizes) > 1:
            times, peaks = zip(*found, strict=True)
            print(
                f"{name:12} exponents: time {exponents(sizes, times)}, "
                f"memory {exponents(sizes, peaks)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
