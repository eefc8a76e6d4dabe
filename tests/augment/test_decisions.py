"""Human decisions about variants, and their effect on the next run."""

import json
import re

import pytest

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, descriptions, explaining, run
from jaxaug.core.errors import UserError
from jaxaug.data.schema import read_schema
from tests.support.appended_words import COST, ENDINGS, FIELDS, decide, go


def cost(out, split="train", key="train/0/slot/2"):
    """Returns the texts of the variants of one description."""
    found = []
    for number in (1, 2, 3):
        schema = read_schema(out / f"v{number}/{split}/schema.json")
        texts = {d.id: d.text for d in descriptions.descriptions(schema, split)}
        found.append(texts[key].removeprefix("Cost of the ticket "))
    return found


def test_rejected_texts_are_replaced_by_the_next_of_the_ranking(sgd_tree, out):
    assert cost(out) == ["or then", "so far", "now"]
    decide(out, {"decision": "rejected", "candidate": "Cost of the ticket so far"})
    said = go(sgd_tree, out)
    assert "dropped: 1 rejected\n" in said
    assert "decisions.jsonl: 0 accepted, 1 rejected, 0 typed" in said
    assert cost(out) == ["by and by", "or then", "now"]
    # For this text alone; the records say why.
    assert cost(out, key="train/0/slot/0")[1].endswith("so far")
    text = (out / "candidates.jsonl").read_text()
    (line,) = (
        record
        for record in map(json.loads, text.splitlines())
        if record["candidate"] == "Cost of the ticket so far"
    )
    assert (line["dropped"], line["variant"]) == (["rejected"], None)
    assert go(sgd_tree, out) == f"{out} is complete: nothing to do"
    # Without the file, its decisions have no effect.
    (out / decisions.FILE).unlink()
    go(sgd_tree, out)
    assert cost(out) == ["or then", "so far", "now"]


def test_the_original_stays_if_no_candidate_is_left(sgd_tree, out):
    decide(
        out,
        *(
            {"decision": "rejected", "candidate": f"Cost of the ticket {end}"}
            for end in ENDINGS[:3]
        ),
        {"decision": "accepted", "variant": 1, "candidate": "Fare of it"},
    )
    go(sgd_tree, out)
    assert cost(out) == ["Fare of it", ENDINGS[3], ENDINGS[4]]
    decide(
        out,
        *(
            {"decision": "rejected", "candidate": f"Cost of the ticket {end}"}
            for end in ENDINGS
        ),
        {"decision": "accepted", "variant": 2, "candidate": "Fare of it"},
    )
    assert "2 of 18 variant texts are the original" in go(sgd_tree, out)
    assert cost(out) == ["Cost of the ticket", "Fare of it", "Cost of the ticket"]


def test_typed_and_accepted_texts_keep_their_places(sgd_tree, out, capsys):
    """Decisions hold if the ranking changes; replaced texts do not come back."""
    decide(
        out,
        {"decision": "accepted", "variant": 3, "candidate": "Cost of the ticket now"},
        {
            "decision": "typed", "variant": 1, "text": "What a ticket costs",
            "candidate": "Cost of the ticket or then",
        },
    )  # fmt: skip
    assert "1 accepted, 0 rejected, 1 typed" in go(sgd_tree, out)
    assert cost(out) == ["What a ticket costs", "so far", "now"]
    # In reverse order: the least similar first.
    other = FIELDS["tree"] | {"decisions": ("min",)}
    go(sgd_tree, out, tree=other)
    assert cost(out) == ["What a ticket costs", "in the long run of all things", "now"]
    go(sgd_tree, out, select="order", tree={})
    assert cost(out) == ["What a ticket costs", "so far", "now"]
    go(sgd_tree, out)
    said = explaining.explain(out, COST["id"])
    assert "[3] Cost of the ticket by and by" in said
    assert "dropped (rejected): Cost of the ticket or then x1" in said


def test_a_service_of_two_splits_has_the_same_decisions(sgd_tree, out):
    both = {"splits": ("train", "test")}
    ids = [d.id for d in every(sgd_tree, "test") if d.text == COST["source"]]
    decide(out, {"decision": "typed", "variant": 2, "text": "Fare"})
    go(sgd_tree, out, **both)
    assert ids and all(cost(out, "test", key)[1] == "Fare" for key in ids)
    # Decisions about another split do not count, and do not make a run stale.
    go(sgd_tree, out, splits=("dev",))
    (out / decisions.FILE).unlink()
    assert "nothing to do" in go(sgd_tree, out, splits=("dev",))


def every(data_dir, split):
    schema = read_schema(data_dir / split / "schema.json")
    return descriptions.descriptions(schema, split, names=True)


def test_the_order_of_lines_and_blank_ones_mean_nothing(sgd_tree, out):
    lines = (
        {"decision": "rejected", "candidate": "Cost of the ticket now"},
        {"decision": "typed", "variant": 2, "text": "Fare"},
    )
    decide(out, *lines)
    go(sgd_tree, out)
    decide(out, *lines[::-1])
    path = out / decisions.FILE
    path.write_text("\n" + path.read_text().replace('", "', '",    "'))
    assert "nothing to do" in go(sgd_tree, out)


TYPED = COST | {"decision": "typed", "variant": 1, "text": "Fare"}
NOW = COST | {"decision": "rejected", "candidate": "Cost of the ticket now"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1: truncated JSON: .* Write a JSON object a line"),
        (["", "[]"], r"line 2: \[\] is not a JSON object. Write a JSON"),
        ([TYPED | {"txt": "a"}], "line 1: no field 'txt'; did you mean 'text'"),
        ([TYPED | {"variant": "v1"}], "variant='v1': expected a whole number"),
        ([TYPED | {"decision": "reject"}], "decision: did you mean 'rejected'"),
        ([COST], "line 1: the field 'decision' is missing"),
        ([COST | {"decision": "typed", "variant": 1}], "the field 'text' is missing"),
        ([NOW | {"candidate": None}], "the field 'candidate' is missing"),
        ([TYPED | {"variant": 4}], "variant=4: the run has variants 1 to 3. Correct"),
        ([TYPED | {"text": "a  b"}], "'a  b': expected words with single spaces"),
        ([TYPED | {"text": ""}], "the text is '': expected words"),
        ([NOW | {"candidate": COST["source"]}],
         "rejects the original text, which is used if no .* Type another text"),
        ([NOW, TYPED | {"id": "train/0/slot/7"}],
         ("line 2: 'train/0/slot/7' is not a text of the schema; did you mean .*"
         "Decisions hold for one schema: take the decisions.jsonl of this one")),
        ([TYPED | {"id": "x"}], "line 1: 'x' is not a text of the schema"),
        ([TYPED | {"source": "Price"}],
         ("line 1: train/0/slot/2 is 'Price' here and 'Cost of the ticket' in "
         "the schema. Decisions hold for one schema")),
        ([NOW, TYPED, TYPED | {"text": "Price"}],
         "line 3: train/0/slot/2: line 2 decides the same variant: 1. Keep one"),
        ([NOW, NOW | {"decision": "accepted", "variant": 1}],
         "line 2: .* line 1 decides the same candidate: 'Cost of the ticket now'"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit(sgd_tree, tmp_path, lines, message):
    path = tmp_path / decisions.FILE
    written = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(written))
    found = [one for one in every(sgd_tree, "train") if not one.kind.endswith("_name")]
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: .*{message}"):
        decisions.read(tmp_path, found, 3)


def test_names_that_cannot_be(sgd_tree, out):
    name = {"id": "train/0/slot_name/0", "source": "city", "variant": 1}
    decide(out, name | {"decision": "typed", "text": "?!"})
    with pytest.raises(UserError, match="line 1: '.!' cannot be a name.* Type another"):
        go(sgd_tree, out, names=True)
    taken = next(d for d in every(sgd_tree, "train") if d.id == "train/0/slot_name/1")
    decide(out, name | {"decision": "typed", "text": taken.text}, {
        "id": taken.id, "source": taken.text, "decision": "accepted",
        "variant": 1, "candidate": taken.text,
    })  # fmt: skip
    with pytest.raises(UserError, match="v1 is decided to be .* Decide for another"):
        go(sgd_tree, out, names=True)


def test_given_variants_leave_nothing_to_decide(sgd_tree, tmp_path):
    decide(tmp_path, {"decision": "typed", "variant": 1, "text": "Fare"})
    given = {"scheme": "given", "options": {"folder": "sgdx"}, "metrics": {"bleu": {}}}
    with pytest.raises(UserError, match="given variants makes no choice to decide"):
        run.augment(configs.of(given, "test"), sgd_tree, tmp_path)
