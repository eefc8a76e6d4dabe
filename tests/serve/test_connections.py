"""A real server with slow, leaving, and misbehaving clients."""

import http.client
import json
import logging
import socket
import threading
import time

import pytest

from jaxaug.serve import app, connections, wordings
from jaxaug.serve.limits import Limits
from tests.serve.test_app import Fake
from tests.support.served import served

POST = b"POST /api/predict HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"


def request(**asked):
    body = json.dumps(asked).encode()
    return POST + b"content-length: %d\r\n\r\n" % len(body) + body


class Place:
    """A running server: its address, its tracker, and connections to it."""

    def __init__(self, address, fake):
        self.port = int(address.rpartition(":")[2])
        self.fake = fake
        self.opened = []

    def connect(self, data=b""):
        one = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        self.opened.append(one)
        one.sendall(data)
        return one

    def health(self):
        """Returns the seconds until `/healthz` has answered."""
        start = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", "/healthz")
        assert json.loads(connection.getresponse().read()) == {"status": "ok"}
        connection.close()
        return time.monotonic() - start


@pytest.fixture
def start(sgd_tree):
    """Returns `start(limits, work)`, a server that runs until the test ends."""
    stack = []

    def begin(limits=None, work=lambda: None):
        known = wordings.read(None, sgd_tree, 1000)
        fake = Fake(known.original, work)
        limits = limits or Limits()
        server = served(app.build(fake, known, limits), limits)
        place = Place(server.__enter__(), fake)
        stack.append((server, place))
        return place

    yield begin
    for server, place in stack:
        for one in place.opened:
            one.close()
        server.__exit__(None, None, None)


def is_closed(one):
    try:
        while one.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1\r\nx: ", POST + b"content-length: 9\r\n\r\n{"]
)
def test_slow_clients_do_not_block_others(start, data):
    """There are more slow clients than connections, with and without headers."""
    place = start(Limits(connections=8))
    for _ in range(30):
        place.connect(data)
        assert place.health() < 1


def test_a_slow_header_is_not_waited_for(start):
    place = start(Limits(header_seconds=0.3))
    silent = place.connect()
    slow = place.connect(b"GET /healthz HTTP/1.1\r\n")
    # A second request of a connection has the same deadline.
    second = place.connect(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
    assert b"200 OK" in second.recv(65_536)
    second.sendall(b"GET /")
    began = time.monotonic()
    assert is_closed(silent) and is_closed(slow) and is_closed(second)
    assert time.monotonic() - began < 5


def test_a_request_that_is_computed_outlives_the_deadline_of_headers(start):
    place = start(Limits(header_seconds=0.2), lambda: time.sleep(0.6))
    asked = place.connect(request(dialogue="USER: a"))
    assert b"200 OK" in asked.recv(65_536)


def test_a_client_that_does_not_read_is_closed(start):
    place = start(Limits(reading_seconds=0.3))
    one = place.connect()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ask = b"GET /api/schemas HTTP/1.1\r\nhost: a\r\n\r\n"
    with pytest.raises(ConnectionError):
        for _ in range(3000):
            one.sendall(ask * 50)
            time.sleep(0.01)


def test_work_of_a_client_that_has_left_stops(start):
    begun, go_on = threading.Event(), threading.Event()

    def work():
        begun.set()
        go_on.wait(20)

    place = start(work=work)
    one = place.connect(request(dialogue="USER: a\n" * 60))
    assert begun.wait(20)
    # This request waits, and is never computed.
    place.connect(request(dialogue="USER: b")).close()
    one.close()
    time.sleep(0.3)
    go_on.set()
    last = place.connect(request(dialogue="USER: c", services=["Trains_1"]))
    assert b"200 OK" in last.recv(65_536)
    # Of 120 inputs only the batch in progress was computed when the client left.
    assert place.fake.batches == [32, 1]


def test_reading_a_request_does_not_stop_others(start, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    place = start()

    def slow(self, dialogue):
        begun.set()
        go_on.wait(20)
        raise TimeoutError

    monkeypatch.setattr(Fake, "read", slow)
    place.connect(request(dialogue="USER: a"))
    assert begun.wait(20)
    assert place.health() < 1
    go_on.set()


def test_a_client_that_leaves_within_its_body_is_not_an_error(start, caplog):
    place = start()
    with caplog.at_level(logging.ERROR):
        place.connect(POST + b"content-length: 99\r\n\r\n{").close()
        # An answer before the end of a body, followed by a malformed chunk.
        head = POST.replace(b"application/json", b"text/plain")
        one = place.connect(head + b"transfer-encoding: chunked\r\n\r\n")
        assert b"415" in one.recv(65_536)
        one.sendall(b"no chunk\r\n")
        is_closed(one)
        place.health()
    assert not caplog.records


def test_tiny_chunks_are_refused(start):
    place = start()
    head = POST + b"transfer-encoding: chunked\r\n\r\n"
    flood = place.connect(head)
    with pytest.raises(ConnectionError):
        for _ in range(100):
            flood.sendall(b"1\r\n \r\n" * 10_000)
    body = json.dumps({"dialogue": "USER: a"}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    assert b"200 OK" in place.connect(head + chunks + b"0\r\n\r\n").recv(65_536)


def test_many_requests_of_many_clients_all_succeed(start):
    place = start()
    statuses = []

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=20)
        for _ in range(25):
            asked = json.dumps({"dialogue": "USER: a"})
            headers = {"content-type": "application/json"}
            connection.request("POST", "/api/predict", asked, headers)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 500


def test_the_settings_of_uvicorn():
    config = connections.config(lambda *_: None, Limits())
    assert (
        config.limit_concurrency is None
    )  # It would count connections that only wait.
    assert config.timeout_graceful_shutdown == 5
    assert config.ws == "none" and not config.proxy_headers
