"""The vectorized metrics: hand-computed frames, properties, and a second scorer."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.core.garbage import paused
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.data.sgd import State
from jaxaug.metrics import dst, slot_scores
from jaxaug.metrics.benchmark import load
from jaxaug.metrics.predictions import read_predictions


def service(name, **slots):
    """Returns a service; keywords are slot=True for a categorical slot."""
    made = [Slot(s, s, kind, ("a", "b") if kind else ()) for s, kind in slots.items()]
    return Service(name, name, tuple(made), ())


SCHEMA = Schema(
    (
        service("Eat_1", city=False, food=True, time=False),
        service("Eat_2", city=False),
        service("Lamp_1", room=True),
        service("Chat_1"),
    )
)


def state(intent="NONE", requested=(), **values):
    made = {s: v if isinstance(v, tuple) else (v,) for s, v in values.items()}
    return State(intent, tuple(requested), made)


def score(name, annotated, predicted, **options):
    reference = dst.Reference("d", 0, name, annotated)
    scores = dst.frame_scores([reference], [predicted], SCHEMA, **options)
    return {metric: values[0] for metric, values in scores.values.items()}


def test_a_frame_worked_by_hand():
    got = score(
        "Eat_1",
        state("Find", ["time", "time", "city"], city=("new york", "NYC"), food="a"),
        state("Find", ["time", "city", "food"], city="york new", food="b", time="5"),
    )
    expected = {
        "joint_goal_accuracy": 0.0,  # food is wrong, time is spurious
        "joint_cat_accuracy": 0.0,
        "joint_noncat_accuracy": 0.0,
        "average_goal_accuracy": 0.5,  # over the annotated city (1) and food (0)
        "average_cat_accuracy": 0.0,
        "average_noncat_accuracy": 1.0,
        "active_intent_accuracy": 1.0,
        "requested_slots_f1": 2 / 3,
        "requested_slots_precision": 2 / 3,
        "requested_slots_recall": 2 / 3,
    }
    assert got == pytest.approx(expected)


def test_joint_accuracy_is_a_product_of_fuzzy_scores():
    got = score(
        "Eat_1", state(city="boston", time="5 pm"), state(city="bostan", time="5 p")
    )
    # 2 * 5 of 12 characters agree; 2 * 3 of 7.
    assert got["joint_goal_accuracy"] == pytest.approx(0.83 * 0.86)
    assert got["joint_noncat_accuracy"] == pytest.approx(0.83 * 0.86)
    assert got["joint_cat_accuracy"] == 1.0
    assert got["average_goal_accuracy"] == pytest.approx((0.83 + 0.86) / 2)
    assert math.isnan(got["average_cat_accuracy"])


def test_only_the_first_values_of_a_categorical_slot_count():
    right = score("Lamp_1", state(room=("a", "b")), state(room=("a", "c")))
    wrong = score("Lamp_1", state(room=("a", "b")), state(room=("b", "a")))
    assert right["joint_goal_accuracy"] == 1.0
    assert wrong["joint_goal_accuracy"] == 0.0


def test_every_alternative_of_a_free_slot_counts_but_only_the_first_prediction():
    annotated = state(city=("new york", "nyc"))
    assert score("Eat_2", annotated, state(city="NYC"))["joint_goal_accuracy"] == 1.0
    late = score("Eat_2", annotated, state(city=("zzz", "nyc")))
    assert late["joint_goal_accuracy"] == 0.0


def test_a_service_without_slots_has_no_goal_accuracy():
    got = score("Chat_1", state("Talk"), state("Talk"))
    assert math.isnan(got["joint_goal_accuracy"])
    assert math.isnan(got["joint_cat_accuracy"])
    assert math.isnan(got["average_goal_accuracy"])
    assert got["active_intent_accuracy"] == 1.0


def test_slots_that_the_schema_lacks_and_empty_values_are_ignored():
    reference = dst.Reference("d", 0, "Eat_2", state(city="rome"))
    predicted = State("NONE", (), {"city": ("rome",), "cty": ("x",), "food": ()})
    scores = dst.frame_scores([reference], [predicted], SCHEMA)
    assert scores.values[dst.JGA] == [1.0]
    assert scores.unknown_slots == 2
    missed = State("NONE", (), {"city": ()})
    assert dst.frame_scores([reference], [missed], SCHEMA).values[dst.JGA] == [0.0]


def test_exact_match_is_case_sensitive():
    annotated = state(city=("Rome", "Roma"))
    assert score("Eat_2", annotated, state(city="Roma"), exact=True)[dst.JGA] == 1.0
    assert score("Eat_2", annotated, state(city="roma"), exact=True)[dst.JGA] == 0.0
    assert score("Eat_2", annotated, state(city="roma"))[dst.JGA] == 1.0


def test_empty_against_empty_requested_slots_is_one():
    got = score("Eat_2", state(), state())
    assert got["requested_slots_f1"] == 1.0
    got = score("Eat_2", state(requested=["city"]), state())
    assert got["requested_slots_f1"] == 0.0
    assert got["requested_slots_precision"] == 1.0
    assert got["requested_slots_recall"] == 0.0


def test_an_unknown_service_names_the_nearest_one():
    with pytest.raises(UserError, match="'Eat_3' is no service of the schema.*'Eat_"):
        score("Eat_3", state(), state())


def test_no_frames_give_an_empty_report():
    scores = dst.frame_scores([], [], SCHEMA)
    assert len(scores) == 0
    assert dst.aggregate(scores, []) == {}


def test_joint_across_turn_multiplies_the_frames_of_a_turn():
    rows = [
        # dialogue, turn, service, right?
        ("a", 0, "Eat_2", True),
        ("a", 2, "Lamp_1", True),
        ("a", 0, "Lamp_1", False),  # same turn as the first row
        ("a", 2, "Chat_1", True),  # without slots, so it is ignored
        ("b", 0, "Eat_2", True),
    ]
    slot = {"Eat_2": "city", "Lamp_1": "room", "Chat_1": "none"}
    references, predictions = [], []
    for dialogue, turn, name, right in rows:
        values = {} if name == "Chat_1" else {slot[name]: "a"}
        references.append(dst.Reference(dialogue, turn, name, state(**values)))
        predictions.append(state(**(values if right else {})))
    scores = dst.frame_scores(references, predictions, SCHEMA)
    by_frame = dst.aggregate(scores, ["Eat_2"])
    by_turn = dst.aggregate(scores, ["Eat_2"], joint_across_turn=True)
    assert by_frame["#ALL_SERVICES"][dst.JGA] == 3 / 4
    assert by_turn["#ALL_SERVICES"][dst.JGA] == 2 / 3
    assert by_turn["Lamp_1"][dst.JGA] == by_turn["Lamp"][dst.JGA] == 1 / 2
    assert by_turn["#UNSEEN_SERVICES"][dst.JGA] == 1 / 2
    assert by_turn["#SEEN_SERVICES"][dst.JGA] == 1.0
    # Other metrics stay per frame; a metric that a group never defines is absent.
    assert by_turn["#ALL_SERVICES"]["active_intent_accuracy"] == 1.0
    assert dst.JGA not in by_turn["Chat_1"]
    assert "joint_cat_accuracy" not in by_frame["Eat_2"]


# Percentages of fuzzywuzzy for pairs of values, by hand: 2 * common / length.
@pytest.mark.parametrize(
    ("a", "b", "percent"),
    [
        ("İstanbul", "istanbul", 94),  # The dot is a character after lower().
        ("a b", "a_b", 67),  # An underscore is a word character.
        ("_", "", 0),
        ("O’Hare", "o hare", 100),
        ("Café", "caf", 100),  # Latin-1 is dropped,
        ("東京", "東", 67),  # characters above it are not.
        ("6:30 pm", "pm 6 30", 100),
        ("", "!", 100),  # Both are empty after cleaning.
    ],
)
def test_match_of_the_official_program(a, b, percent):
    assert slot_scores.match_values([[a]], [b]).tolist() == [percent / 100]


WORDS = st.text(
    st.sampled_from("abcxyz_ 019:.-_'’ÉéßøŁł中京İıſ\u00a0\t"), max_size=12
) | st.text(max_size=8)


def percentage(a, b):
    """Returns 2 * longest common subsequence / length, of texts with sorted words."""
    kept = (re.sub("[\u0080-\u00ff]", "", text) for text in (a, b))
    a, b = (" ".join(sorted(re.sub(r"\W", " ", t).lower().split())) for t in kept)
    common = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            longer = max(common[i][j + 1], common[i + 1][j])
            common[i + 1][j + 1] = common[i][j] + 1 if x == y else longer
    both = len(a) + len(b)
    return round(200 * common[-1][-1] / both) if both else 100


@given(st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=3), WORDS), max_size=9))
def test_match_values_equals_common_letters_of_sorted_words(pairs):
    got = slot_scores.match_values(
        [values for values, _ in pairs], [guess for _, guess in pairs]
    )
    expected = [
        max(percentage(value, guess) for value in values) / 100
        for values, guess in pairs
    ]
    assert got.tolist() == pytest.approx(expected, abs=1e-12)


NAMES = ("Eat_1", "Eat_2", "Lamp_1", "Chat_1")


@st.composite
def states(draw, name):
    slots = [slot.name for slot in SCHEMA.service(name).slots]
    values = {
        slot: tuple(draw(st.lists(WORDS, min_size=1, max_size=3)))
        for slot in slots
        if draw(st.booleans())
    }
    requested = draw(st.lists(st.sampled_from(["city", "time", "x"]), max_size=3))
    return State(draw(st.sampled_from(["NONE", "Find"])), tuple(requested), values)


@st.composite
def frames(draw):
    name = draw(st.sampled_from(NAMES))
    return name, draw(states(name)), draw(states(name))


@given(st.lists(frames(), min_size=1, max_size=6), st.integers(0, 6), st.booleans())
def test_joined_parts_are_the_whole(rows, cut, tagged):
    """Only the second part has spans."""
    references = [
        dst.Reference("d", i, n, truth) for i, (n, truth, _) in enumerate(rows)
    ]
    guesses = [guess for _, _, guess in rows]
    cut = min(cut, len(rows))
    own = [(("city", "x"),)] * len(rows), [None] * cut + [()] * (len(rows) - cut)
    whole = dst.frame_scores(references, guesses, SCHEMA, tags=own if tagged else None)
    later = tuple(side[cut:] for side in own) if tagged else None
    found = dst.joined(
        dst.frame_scores(references[part], guesses[part], SCHEMA, tags=tags)
        for part, tags in ((slice(cut), None), (slice(cut, None), later))
    )
    assert found.services == whole.services and len(found) == len(whole)
    assert found.unknown_slots == whole.unknown_slots
    for name in ("service", "turn"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert found.values.keys() == whole.values.keys()
    for name, values in whole.values.items():
        np.testing.assert_array_equal(found.values[name], values)


@given(st.lists(frames(), min_size=1, max_size=6))
def test_properties(rows):
    references = [
        dst.Reference("d", i, n, truth) for i, (n, truth, _) in enumerate(rows)
    ]
    guesses = [guess for _, _, guess in rows]
    truths = [truth for _, truth, _ in rows]
    scores = dst.frame_scores(references, guesses, SCHEMA)
    exact = dst.frame_scores(references, guesses, SCHEMA, exact=True)
    perfect = dst.frame_scores(references, truths, SCHEMA)
    for name, values in scores.values.items():
        assert np.all(np.isnan(values) | ((values >= 0) & (values <= 1)))
        good = perfect.values[name]
        assert np.all(np.isnan(good) | (good == 1.0)), name
        assert np.array_equal(np.isnan(values), np.isnan(good))
    joint, cat, noncat = (
        np.nan_to_num(scores.values[f"joint_{k}_accuracy"], nan=1.0)
        for k in ("goal", "cat", "noncat")
    )
    assert joint == pytest.approx(cat * noncat)
    # Exact match never exceeds fuzzy match.
    difference = scores.values[dst.JGA] - exact.values[dst.JGA]
    assert np.all(np.nan_to_num(difference) >= -1e-12)
    # Frames do not depend on each other.
    for index, row in enumerate(rows):
        alone = score(*row)
        for name, values in scores.values.items():
            np.testing.assert_equal(alone[name], values[index])
    # The mean over all services is the weighted mean over single services.
    report = dst.aggregate(scores, ["Eat_1"])
    total = sum(
        report[n]["active_intent_accuracy"] * c for n, c in counts(rows).items()
    )
    assert report[dst.ALL_SERVICES]["active_intent_accuracy"] == pytest.approx(
        total / len(rows)
    )


def counts(rows):
    names = [name for name, _, _ in rows]
    return {name: names.count(name) for name in names}


def compare(benchmark, services, references, guesses, seen, oracle, tmp_path, mode):
    """Returns our report after comparing all keys with the second scorer, to 1e-9."""
    fuzzy, across = mode
    (tmp_path / "pred.json").write_text(json.dumps(list(guesses.values())))
    predictions = read_predictions(tmp_path, benchmark)
    scores = dst.frame_scores(
        predictions.references,
        predictions.states,
        benchmark.schema,
        not fuzzy,
        predictions.spans,
    )
    got = dst.aggregate(scores, benchmark.seen_services, across)
    expected = oracle.evaluate(references, guesses, services, seen, fuzzy, across)
    assert got.keys() == expected.keys()
    for group, metrics in expected.items():
        assert got[group] == pytest.approx(metrics, abs=1e-9, rel=0), group
    return got


MODES = [(True, False), (False, False), (True, True), (False, True)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [0, 1])
def test_parity_on_the_small_world(data_dir, oracle, corrupted, tmp_path, seed, mode):
    references = oracle.read_dialogues(data_dir / "test")
    services = oracle.read_services(data_dir / "test" / "schema.json")
    guesses = corrupted(references, seed)
    seen = {"Restaurants_1", "Hotels_2"}
    benchmark = load(data_dir, "test")
    report = compare(
        benchmark, services, references, guesses, seen, oracle, tmp_path, mode
    )
    assert 0.02 < report[dst.ALL_SERVICES][dst.JGA] < 0.9
    assert "slot_tagging_f1" in report[dst.ALL_SERVICES]
    assert len(report) == 3 + 4 + 4


def test_parity_on_a_variant(data_dir, oracle, corrupted, renamed, tmp_path):
    references = {
        key: renamed(dialogue, "3")
        for key, dialogue in oracle.read_dialogues(data_dir / "test").items()
    }
    services = oracle.read_services(data_dir / "sgd_x/data/v3/test/schema.json")
    guesses = corrupted(references, 5)
    seen = {"Restaurants_13", "Hotels_23"}
    benchmark = load(data_dir, "test", "v3")
    compare(
        benchmark, services, references, guesses, seen, oracle, tmp_path, (True, False)
    )


@pytest.fixture(scope="module")
def real_test(real_data, oracle):
    """Returns the references of the real test split as both scorers read them."""
    folder = real_data / "sgd"
    services = oracle.read_services(folder / "test" / "schema.json")
    seen = services.keys() & oracle.read_services(folder / "train/schema.json").keys()
    benchmark = load(folder, "test")
    with paused():
        references = oracle.read_dialogues(folder / "test")
    return benchmark, services, references, seen


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES[:3])
def test_parity_on_real_sgd(real_test, oracle, corrupted, tmp_path, mode):
    benchmark, services, references, seen = real_test
    if mode != MODES[0]:  # all frames once, a tenth of them in the other modes
        references = dict(list(references.items())[::10])
    slots = {
        n: [s["name"] for s in service["slots"]] for n, service in services.items()
    }
    guesses = corrupted(references, 7, slots)
    report = compare(
        benchmark, services, references, guesses, seen, oracle, tmp_path, mode
    )
    assert 0.02 < report[dst.ALL_SERVICES][dst.JGA] < 0.9
    assert {*services} < report.keys()
