"""The record cache: same bytes for any workers, complete or absent, right key."""

import itertools
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.leave_out import Selection
from jaxaug.feed import cache
from jaxaug.feed.cache import Recipe, build, cache_name
from jaxaug.feed.parallel import Corpus
from jaxaug.formats.d3st import D3STFormatter, D3STOptions, parse
from jaxaug.formats.t5dst import T5DSTOptions
from jaxaug_papers import minisgd
from tests.support import grids

SHUFFLED = D3STOptions(order="shuffled")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache") / "data"
    minisgd.write(folder, train_dialogues=260, dev_dialogues=3, test_dialogues=5)
    return str(folder)


def contents(found):
    return {path.name: path.read_bytes() for path in found.folder.iterdir()}


def test_examples_equal_the_formatter(data, tmp_path):
    options = D3STOptions()
    found = build(Recipe(Corpus(data, "train"), options), root=tmp_path)
    formatter = D3STFormatter(sgd.read_schema_of(data, "train"), options)
    expected = [
        example
        for dialogue in sgd.read_dialogues(data, "train")
        for example in formatter.dialogue(dialogue)
    ]
    assert list(found.read()) == expected
    assert found.examples == len(expected) > 260
    assert len(found.shards) >= 32


def test_renderings_are_epochs_side_by_side(data, tmp_path):
    recipe = Recipe(Corpus(data, "dev", "v2"), SHUFFLED, renderings=3)
    found = build(recipe, root=tmp_path)
    formatter = D3STFormatter(sgd.read_schema_of(data, "dev", "v2"), SHUFFLED)
    dialogues = list(sgd.read_dialogues(data, "dev", "v2"))
    expected = [
        example
        for epoch in range(3)
        for dialogue in dialogues
        for example in formatter.dialogue(dialogue, epoch)
    ]
    key = lambda e: (e.dialogue_id, e.turn, e.frame, e.inputs)
    assert sorted(found.read(), key=key) == sorted(expected, key=key)
    assert len({example.inputs for example in found.read()}) > found.examples / 2


def test_bytes_do_not_depend_on_the_workers(data, tmp_path):
    recipe = Recipe(Corpus(data, "train"), SHUFFLED, renderings=2)
    one = build(recipe, workers=1, root=tmp_path / "1")
    two = build(recipe, workers=2, root=tmp_path / "2")
    assert one.folder.name == two.folder.name
    assert contents(one) == contents(two)


def test_shuffled_shards_part_the_frames_of_a_dialogue(data, tmp_path):
    def neighbours(options):
        found = build(Recipe(Corpus(data, "train"), options), root=tmp_path)
        ids = [example.dialogue_id for example in found.read()]
        return sum(a == b for a, b in itertools.pairwise(ids)) / len(ids)

    assert neighbours(SHUFFLED) < 0.1
    assert neighbours(D3STOptions()) > 0.5


def test_order_within_a_file_depends_on_the_seed(data, tmp_path):
    def order(seed):
        options = D3STOptions(order="shuffled", seed=seed)
        found = build(Recipe(Corpus(data, "train"), options), root=tmp_path)
        return [(e.dialogue_id, e.turn, e.frame) for e in found.read()]

    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))


def test_a_second_call_reads_the_cache(data, tmp_path, monkeypatch):
    recipe = Recipe(Corpus(data, "dev"), T5DSTOptions())
    first = build(recipe, root=tmp_path)
    monkeypatch.setattr(cache, "_write", None)
    assert build(recipe, root=tmp_path) == first


def test_the_progress_bar_tells_caches_of_a_split_apart(data, tmp_path, monkeypatch):
    labels = []

    def in_order(function, jobs, workers, label):
        labels.append(label)
        return map(function, jobs)

    monkeypatch.setattr(cache.parallel, "in_order", in_order)
    corpus = Corpus(data, "train")
    without = replace(corpus, selection=Selection("events", "others"))
    build(Recipe(corpus, SHUFFLED), root=tmp_path)
    build(Recipe(corpus, replace(SHUFFLED, max_items=(1, 2))), root=tmp_path)
    build(Recipe(without, T5DSTOptions()), root=tmp_path)
    build(Recipe(Corpus(data, "dev", "v2"), D3STOptions()), root=tmp_path)
    assert labels == [
        "cache d3st train original",
        "cache d3st train original max_items=(1, 2)",
        "cache t5dst train original others=events",
        "cache d3st dev v2",
    ]


def test_the_key_covers_options_version_and_content(sgd_tree, monkeypatch, edit_json):
    corpus = Corpus(str(sgd_tree), "dev", "v1")
    base = Recipe(corpus, SHUFFLED)
    names = {cache_name(base)}
    variants = [
        replace(base, renderings=2),
        replace(base, options=replace(SHUFFLED, seed=1)),
        replace(base, options=D3STOptions()),
        replace(base, options=T5DSTOptions()),
        replace(base, corpus=replace(corpus, variant=None)),
        replace(base, corpus=replace(corpus, variant="v2")),
        replace(base, corpus=replace(corpus, split="test")),
    ]
    names.update(map(cache_name, variants))
    assert len(names) == 8
    edit_json(
        sgd_tree / "dev" / "dialogues_001.json",
        lambda data: data[0]["turns"][0].update(utterance="A train to Bern quickly"),
    )
    names.add(cache_name(base))
    edit_json(
        sgd_tree / "sgd_x/data/v1/dev/schema.json",
        lambda data: data[0].update(description="other"),
    )
    names.add(cache_name(base))
    monkeypatch.setattr("jaxaug.formats.d3st.D3STOptions.version", 99)
    names.add(cache_name(base))
    assert len(names) == 11


def test_the_key_does_not_depend_on_the_place(sgd_tree, tmp_path):
    copy = shutil.copytree(sgd_tree, tmp_path / "elsewhere")
    here, there = (
        cache_name(Recipe(Corpus(str(folder), "dev", "v1"), SHUFFLED))
        for folder in (sgd_tree, copy)
    )
    assert here == there


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


def make_folder(path):
    path.unlink()
    path.mkdir()


def largest(found):
    return max(
        (found.folder / name for name in found.shards),
        key=lambda path: path.stat().length,
    )


DAMAGE = {
    "delete": (lambda f: largest(f).unlink(), "{shard} is missing or cannot be read"),
    "cut": (
        lambda f: largest(f).write_bytes(largest(f).read_bytes()[:-5]),
        "{shard} has {less} bytes, {size} were written",
    ),
    "flip": (
        lambda f: flip(largest(f), -9),
        "{shard} holds other bytes than were written",
    ),
    "folder": (
        lambda f: make_folder(largest(f)),
        "{shard} is missing or cannot be read",
    ),
    "no list": (
        lambda f: (f.folder / "meta.json").unlink(),
        "its meta.json is missing or no list of files",
    ),
    "cut list": (
        lambda f: (f.folder / "meta.json").write_text('{"examples": 3, "sha'),
        "its meta.json is missing or no list of files",
    ),
    # Another number of examples, still JSON.
    "flipped list": (
        lambda f: flip(f.folder / "meta.json", len('{"examples": 1')),
        "its meta.json is not what was written",
    ),
    "file": (
        lambda f: (f.folder.rmtree(), f.folder.write_text("x")),
        "its meta.json is missing or no list of files",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_reported_and_made_again(data, tmp_path, caplog, damage):
    recipe = Recipe(Corpus(data, "test"), D3STOptions())
    found = build(recipe, root=tmp_path)
    before = contents(found)
    shard, size = largest(found).name, largest(found).stat().length
    spoil, message = DAMAGE[damage]
    spoil(found)
    caplog.clear()
    again = build(recipe, root=tmp_path)
    assert contents(again) == before and again == found
    assert len(list((tmp_path / "records").iterdir())) == 1
    reason = message.format(shard=shard, size=size, less=size - 5)
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        f"cache {found.folder} is damaged and made again: {reason}"
    ]


def test_sound_parts_can_be_read_while_a_cache_is_repaired(data, tmp_path, monkeypatch):
    recipe = Recipe(Corpus(data, "test"), D3STOptions())
    found = build(recipe, root=tmp_path)
    flip(largest(found), 0)
    sound = contents(found)
    del sound[largest(found).name]
    looked = []
    replace = type(found.folder).replace

    def replace_and_look(self, target):
        done = replace(self, target)
        looked.append(all(found.folder.joinpath(n).exists() for n in sound))
        return done

    monkeypatch.setattr(type(found.folder), "replace", replace_and_look)
    build(recipe, root=tmp_path)
    assert looked == [True] * (len(sound) + 1)


def test_nothing_is_left_of_a_build_that_fails(sgd_tree, tmp_path):
    (sgd_tree / "train" / "dialogues_002.json").write_text("[{")
    recipe = Recipe(Corpus(str(sgd_tree), "train"), SHUFFLED)
    for workers in (1, 2):
        with pytest.raises(UserError, match="dialogues_002.json: truncated JSON"):
            build(recipe, workers=workers, root=tmp_path)
        assert list((tmp_path / "records").iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(data, tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device", str(self))

    recipe = Recipe(Corpus(data, "dev"), D3STOptions())
    monkeypatch.setattr(type(epath.Path(tmp_path)), "write_bytes", full)
    with pytest.raises(UserError) as error:
        build(recipe, workers=1, root=tmp_path)
    message = str(error.value)
    assert message.startswith(
        f"cache {tmp_path}/records/{cache_name(recipe)} cannot be made: [Errno 28] No "
        "space left on device: "
    )
    assert message.endswith(
        ". Free disk space, or name a cache folder that can be written with "
        "$JAXAUG_CACHE_DIR."
    )
    assert list((tmp_path / "records").iterdir()) == []


def test_a_disk_that_loses_written_bytes(data, tmp_path, monkeypatch):
    recipe = Recipe(Corpus(data, "dev"), D3STOptions())
    monkeypatch.setattr(cache.manifest, "opened", lambda folder: None)
    with pytest.raises(UserError) as error:
        build(recipe, workers=1, root=tmp_path)
    assert str(error.value) == (
        f"cache {tmp_path}/records/{cache_name(recipe)} is not what was just written "
        "there. Check the disk, or name another cache folder with $JAXAUG_CACHE_DIR."
    )


def test_half_written_folders_are_ignored_and_old_ones_removed(data, tmp_path):
    recipe = Recipe(Corpus(data, "dev"), D3STOptions())
    records = tmp_path / "records"
    name = cache_name(recipe)
    for suffix, age in (("aaaaaaaa", 0), ("bbbbbbbb", 2 * 24 * 3600)):
        half = records / f".{name}.{suffix}.tmp"
        half.mkdir(parents=True)
        (half / "000-00000-000.tsv").write_text("half")
        stamp = half.stat().st_mtime - age
        os.utime(half, (stamp, stamp))
    assert build(recipe, root=tmp_path).folder == epath.Path(records / name)
    assert {path.name for path in records.iterdir()} == {name, f".{name}.aaaaaaaa.tmp"}


@pytest.mark.parametrize("before", grids.first(1, ["nothing", "damaged"]))
def test_builders_at_the_same_time(data, tmp_path, before):
    if before == "damaged":
        found = build(Recipe(Corpus(data, "train"), D3STOptions()), root=tmp_path)
        flip(largest(found), -9)
    program = (
        "import sys\n"
        "from jaxaug.feed.cache import Recipe, build\n"
        "from jaxaug.formats.d3st import D3STOptions\n"
        "from jaxaug.feed.parallel import Corpus\n"
        "recipe = Recipe(Corpus(sys.argv[1], 'train'), D3STOptions())\n"
        "print(build(recipe, workers=1, root=sys.argv[2]).examples)\n"
    )
    command = [sys.executable, "-c", program, data, str(tmp_path)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    answers = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(list((tmp_path / "records").iterdir())) == 1
    found = build(Recipe(Corpus(data, "train"), D3STOptions()), root=tmp_path)
    assert answers == [f"{len(list(found.read()))}\n"] * 3


def test_renderings_need_a_shuffled_order(data):
    with pytest.raises(UserError, match="renderings=2 with order='schema': use 1"):
        Recipe(Corpus(data, "dev"), D3STOptions(), renderings=2)
    with pytest.raises(UserError, match="renderings=0 with order='shuffled'"):
        Recipe(Corpus(data, "dev"), SHUFFLED, renderings=0)


def test_cached_answers_can_be_parsed(data, tmp_path):
    found = build(Recipe(Corpus(data, "test", "v4"), SHUFFLED), root=tmp_path)
    states = {}
    for dialogue in sgd.read_dialogues(data, "test", "v4"):
        for turn, item in enumerate(dialogue.turns):
            for frame, content in enumerate(item.frames):
                states[dialogue.dialogue_id, turn, frame] = content.state
    for example in found.read():
        parsed = parse(example.targets, example.key)
        state = states[example.dialogue_id, example.turn, example.frame]
        assert parsed.active_intent == state.active_intent
        assert parsed.slot_values.keys() == state.slot_values.keys()
