"""Back-translation by the program apertium, and by a stand-in for it."""

import shutil
import time

import pytest

from jaxaug import cli
from jaxaug.augment.schemes import apertium, registry
from jaxaug.core.errors import UserError

# Marks each line with the direction, and joins a line that ends in "non-stop" with the
# next one if the full stop is missing, as the program does.
STAND_IN = """#!/usr/bin/env python3
import sys, time
if sys.argv[1:] == ["-V"]:
    print("Apertium 9.9"); raise SystemExit
direction = sys.argv[-1]
assert sys.argv[1:-1] == ["-u", "-n", "-f", "line"], sys.argv
if direction == "eng-cat":
    sys.exit("Error: Mode eng-cat does not exist")
if direction == "en-gl":
    time.sleep(60)
for line in sys.stdin.read().split("\\n")[:-1]:
    assert line.endswith(" ."), line
    if "non-stop" in line and direction == "en-eo":
        print(line.removesuffix(" ."), end=" ")
    else:
        print(line.removesuffix(" ."), "via", direction, ".")
"""


@pytest.fixture
def program(tmp_path):
    """Returns the path of the stand-in."""
    path = tmp_path / "apertium"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return str(path)


def test_texts_go_there_and_back_in_their_order(program):
    texts = ["a  city", "", "a city", "the hotel."]
    found = apertium.candidates(texts, pivots=["spa", "hbs"], program=program)
    ways = ["via eng-spa via spa-eng", "via eng-hbs via hbs-eng"]
    assert found == [
        [f"a city {way}" for way in ways],
        [],
        [f"a city {way}" for way in ways],
        [f"the hotel. {way}" for way in ways],
    ]
    assert apertium.candidates(["x"], program=program) == [
        ["x via eng-spa via spa-eng"]
    ]
    found = apertium.candidates(["x"], pivots="spa,hbs", num=1, program=program)
    assert found == [["x via eng-spa via spa-eng"]]


def test_joined_lines_are_translated_one_at_a_time(program):
    found = apertium.translate(["non-stop", "city"], "en-eo", "", program=program)
    assert found == ["non-stop", "city via en-eo"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"program": "no-such-program"},
         r"no-such-program: the program cannot be started .*apertium-eng-spa"),
        ({"pivots": "cat"},
         r"failed with status 1 \(Error: .*\)\. Install it, .* apertium-eng-cat`"),
        ({"pivots": "klingon"}, "'klingon' is no language of the scheme; .*spa"),
        ({"pivots": ()}, "'' is no language of the scheme"),
        ({"num": 0}, "num=0: give at least 1"),
    ],
)  # fmt: skip
def test_wrong_arguments(program, options, message):
    with pytest.raises(UserError, match=message):
        apertium.candidates(["a"], **{"program": program, **options})


def test_a_program_that_hangs_is_ended(program):
    began = time.monotonic()
    with pytest.raises(UserError, match=r"en-gl: no translation of 1 texts after 1 s"):
        apertium.candidates(["a"], pivots="glg", program=program, timeout=1)
    assert time.monotonic() - began < 30


def test_the_key_has_the_version_and_no_path(program):
    [job] = registry.made("apertium", 0, {"program": program, "pivots": ["spa"]})
    assert job.key["program"] == "Apertium 9.9" and job.models == ()
    assert job.key["apertium"] == {"pivots": ["spa"]} and job.most == 1
    assert job.run(["x"]) == [["x via eng-spa via spa-eng"]]


def test_the_scheme_of_augment_text(program, tmp_path):
    (tmp_path / "in.txt").write_text("a city\n")
    arguments = ["augment", "text", "--scheme=apertium", "--num=1"]
    arguments += ["--in", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.txt")]
    assert cli.main([*arguments, "--option", f"program={program}"]) == 0
    assert (tmp_path / "out.txt").read_text() == "a city via eng-spa via spa-eng\n"


@pytest.mark.skipif(not shutil.which("apertium"), reason="apertium is not installed")
def test_the_real_program():
    found = apertium.candidates(["the city of the hotel", "start time non-stop"])
    assert found[0] == ["The city of the hotel"] and len(found[1]) == 1
