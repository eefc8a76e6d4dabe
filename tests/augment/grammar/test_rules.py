"""Every rule of the table rewords its example and leaves its counterexample."""

import pytest

from jaxaug.augment.grammar import patterns, rules
from jaxaug.augment.grammar.chunks import chunks
from jaxaug.core.errors import UserError

TABLE = {rule.name: rule for rule in rules.table()}


def outputs(rule: rules.Rule, text: str) -> list[str]:
    found = chunks(text, rule.kinds[0] in ("intent", "service", "flag"))
    return list(rule.apply(found, patterns.encode(found)))


@pytest.mark.parametrize("name", TABLE)
def test_a_rule_gives_its_example_and_spares_its_counter_example(name: str) -> None:
    rule = TABLE[name]
    assert rule.good and rule.bad
    for source, result in rule.good:
        assert result in outputs(rule, source)
    for source in rule.bad:
        assert outputs(rule, source) == []


def test_kinds_choose_the_rules() -> None:
    rule = TABLE["place-you-do"]  # of kind "input"
    assert rule.fits("slot", is_flag=False, is_input=True)
    assert not rule.fits("slot", is_flag=False, is_input=False)
    assert not rule.fits("slot", is_flag=True, is_input=True)
    assert not rule.fits("intent", is_flag=False, is_input=True)
    assert TABLE["gerund"].fits("service", is_flag=False, is_input=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a] noun\nmatch: {x:NP}",
         "with kinds of slot, flag, value, input, intent, service"),
        ("[a] slot\nrewrite: {x}", "Write `name: value`, with a name of match, write"),
        ("[a] slot\nmatch: {x:NP}\n\n[a] slot\nmatch: {x:NP}",
         "two rules are called 'a'"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(tmp_path, monkeypatch, text, message) -> None:
    path = tmp_path / "rules.txt"
    path.write_text(text)
    monkeypatch.setattr(rules, "_FILE", path)
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        rules.table.__wrapped__()


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        ("a hour , a user", "an hour, a user"),
        ("an university / a open day", "a university / an open day"),
        ("one-way ( daily )", "one-way (daily)"),
    ],
)
def test_tidy(text: str, tidy: str) -> None:
    assert rules.tidy(text) == tidy
