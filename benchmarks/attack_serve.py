"""Attacks a `jaxaug serve` that this program starts on 127.0.0.1.

    python benchmarks/attack_serve.py RUN

For each attack, the program prints the longest time of `/healthz` during the attack,
the memory growth of the server, the longest request, and the status of the answers.
Every attack ends within three minutes.
"""

import argparse
import collections
import contextlib
import functools
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HOST = "127.0.0.1"
TALK = "USER: i need a table for two in oslo\nSYSTEM: at what time?\nUSER: at 6 pm\n"


class Server:
    """The attacked server and its measurements."""

    def __init__(self, run: str):
        command = [sys.executable, "-m", "jaxaug.cli", "serve", run, "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        for line in self._process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("the server did not start")
        self.statuses: collections.Counter[str] = collections.Counter()
        self.longest = 0.0

    def stop(self) -> None:
        """Ends the server."""
        self._process.terminate()
        self._process.wait(30)

    def memory(self) -> float:
        """Returns the resident memory in MB."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]

    def connect(self) -> socket.socket:
        """Returns a connection to the server."""
        return socket.create_connection((HOST, self.port), timeout=10)

    def ask(self, body: bytes, timeout: float = 130) -> None:
        """Sends a request for a prediction and counts the status of its answer."""
        start = time.monotonic()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout)
        try:
            headers = {"content-type": "application/json"}
            connection.request("POST", "/api/predict", body, headers)
            answer = connection.getresponse()
            answer.read()
            status = str(answer.status)
        except OSError as error:
            status = type(error).__name__
        finally:
            connection.close()
        self.statuses[status] += 1
        self.longest = max(self.longest, time.monotonic() - start)

    def health(self) -> float:
        """Returns the seconds that `/healthz` takes."""
        start = time.monotonic()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        connection.close()
        return time.monotonic() - start


def together(count: int, work: Callable[[], object]) -> None:
    """Runs the work in `count` concurrent threads."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def service(name: str, slots: int = 1, unknown: int = 0) -> dict:
    """Returns a service as the JSON of a schema."""
    slot = {"description": "", "is_categorical": False, "possible_values": []}
    intent = {"description": "", "is_transactional": False, "required_slots": []}
    names = {f"unknown_slot_{n}": "" for n in range(unknown)}
    return {
        "service_name": name,
        "description": "",
        "slots": [{"name": f"slot_name_{n}", **slot} for n in range(slots)],
        "intents": [
            {"name": "i", **intent, "optional_slots": names, "result_slots": []}
        ],
    }


def turns(count: int, said: str) -> list[dict]:
    """Returns user turns; the first one has a long text."""
    return [
        {"speaker": "USER", "utterance": said if not n else ""} for n in range(count)
    ]


def encoded(**request: object) -> bytes:
    """Returns the body of a request."""
    return json.dumps(request).encode()


def bodies() -> Iterator[tuple[str, int, bytes]]:
    """Yields (name, number of concurrent clients, body) of attacks with one request."""
    wrong = [service("A", 1000, 1000)]
    yield "1,000 unknown slots", 4, encoded(dialogue=TALK, schema=wrong)
    long = [service("s" * 400 + str(n), 1) for n in range(150)]
    yield "150 long names", 4, encoded(dialogue=TALK, schema=long, services=["s" * 900])
    many = [service(f"S{n}", 0) for n in range(1000)]
    said = "a table " * 6000
    yield "1,000 services, 64 turns", 4, encoded(dialogue=turns(64, said), schema=many)
    yield "64 full requests", 64, encoded(dialogue=TALK, schema=many)
    yield "64 turns, 180 KB", 4, encoded(dialogue=turns(64, "a table " * 23_000))
    yield "5,000 turns", 4, encoded(dialogue="USER: a\n" * 5000)
    yield "one turn, 250 KB", 8, encoded(dialogue=turns(1, "a table " * 31_000))
    yield "a word of 250 KB", 8, encoded(dialogue=turns(1, "a" * 250_000))
    yield "250 KB of blanks", 8, encoded(dialogue=f"USER: a{' ' * 250_000}b")
    yield "250 KB of lists", 32, b'{"dialogue": [' + b"[]," * 80_000 + b"[]]}"
    yield "nested lists", 4, b'{"dialogue": ' + b"[" * 120_000 + b"]" * 120_000 + b"}"
    yield "5,000 digits", 4, b'{"dialogue": ' + b"9" * 5000 + b"}"
    yield "a name twice", 4, b'{"dialogue": "USER: a", "dialogue": "USER: b"}'


def slow_headers(server: Server, count: int) -> None:
    """Opens connections that send one byte of a header per second."""
    opened = [server.connect() for _ in range(count)]
    for byte in b"GET / HTTP":
        time.sleep(1)
        for one in opened:
            send(one, bytes([byte]))
    close(opened)


def slow_bodies(server: Server, count: int) -> None:
    """Opens connections that send one byte of a body per second."""
    head = b"POST /api/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999\r\n"
    opened = [server.connect() for _ in range(count)]
    for one in opened:
        send(one, head + b"content-type: application/json\r\n\r\n")
    for _ in range(10):
        time.sleep(1)
        for one in opened:
            send(one, b"{")
    close(opened)


def slow_readers(server: Server, count: int) -> None:
    """Opens connections that request much output and never read it."""
    opened = [server.connect() for _ in range(count)]
    for one in opened:
        send(one, b"GET /api/schemas HTTP/1.1\r\nhost: localhost\r\n\r\n" * 20)
    time.sleep(10)
    close(opened)


def tiny_chunks(server: Server, count: int) -> None:
    """Sends bodies in chunks of one byte."""
    head = (
        b"POST /api/predict HTTP/1.1\r\nhost: localhost\r\n"
        b"transfer-encoding: chunked\r\n"
    )
    opened = [server.connect() for _ in range(count)]
    for one in opened:
        one.settimeout(0.2)
        send(
            one,
            head + b"content-type: application/json\r\n\r\n" + b"1\r\na\r\n" * 40_000,
        )
    close(opened)


def clients_that_leave(server: Server, count: int) -> None:
    """Requests all services of a long dialogue and disconnects immediately."""
    body = encoded(dialogue=TALK * 20)
    head = (
        f"POST /api/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}"
    )
    opened = [server.connect() for _ in range(count)]
    for one in opened:
        send(one, head.encode() + b"\r\ncontent-type: application/json\r\n\r\n" + body)
    time.sleep(1)
    close(opened)
    server.ask(encoded(dialogue=TALK, services=["Restaurants_1"]))


def many_clients(server: Server, count: int) -> None:
    """Sends 500 requests from 20 clients."""
    body = encoded(dialogue=TALK, services=["Restaurants_1"])

    def client() -> None:
        for _ in range(count // 20):
            server.ask(body)

    together(20, client)


def send(one: socket.socket, data: bytes) -> None:
    """Sends data until the server stops reading."""
    with contextlib.suppress(OSError):
        one.sendall(data)


def close(opened: list[socket.socket]) -> None:
    """Closes connections."""
    for one in opened:
        one.close()


def measured(server: Server, name: str, attack: Callable[[], object]) -> None:
    """Prints a line about one attack."""
    server.statuses.clear()
    server.longest = 0.0
    before = server.memory()
    thread = threading.Thread(target=attack)
    thread.start()
    slowest, most = 0.0, before
    while thread.is_alive():
        slowest = max(slowest, server.health())
        most = max(most, server.memory())
        time.sleep(0.02)
    found = " ".join(f"{key}x{count}" for key, count in sorted(server.statuses.items()))
    print(
        f"{name:26} {slowest:8.2f} s {most - before:8.0f} MB {server.longest:8.1f} s  "
        f"{found}",
        flush=True,
    )


def main() -> None:
    """Starts the server, attacks it, and ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    server = Server(arguments.run)
    attacks: list[tuple[str, Callable[[], object]]] = [
        (name, functools.partial(together, count, functools.partial(server.ask, body)))
        for name, count, body in bodies()
    ]
    for kind, counts in (
        (slow_headers, (63, 300)),
        (slow_bodies, (63, 300)),
        (slow_readers, (63,)),
        (tiny_chunks, (63,)),
        (clients_that_leave, (20,)),
        (many_clients, (500,)),
    ):
        for count in counts:
            name = f"{count} {kind.__name__.replace('_', ' ')}"
            attacks.append((name, functools.partial(kind, server, count)))
    print(f"{'attack':26} {'/healthz':>10} {'memory':>11} {'longest':>10}  answers")
    try:
        for name, attack in attacks:
            if arguments.only in name:
                measured(server, name, attack)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
