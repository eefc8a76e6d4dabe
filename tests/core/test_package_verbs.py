"""Verbs of other packages: broken, missing, and invalid ones."""

import re
from pathlib import Path

import pytest

from jaxaug.cli import VERBS, main
from jaxaug.core import extensions, installed
from jaxaug.core.errors import UserError


def test_a_broken_verb_breaks_no_other(install, capsys):
    points = {"data": "thief:add", "steal": "thief:add"}
    install("thief", {"jaxaug.verbs": points}, "1 / 0")
    reason = "package thief: thief:add cannot be imported (ZeroDivisionError"
    assert main(["steal", "--all"]) == 1
    assert f"error: verb 'steal' of {reason}" in capsys.readouterr().err
    assert main(["completion", "bash"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"verb 'steal' of {reason}" in said
    assert "verb 'data' of package thief: jaxaug has a verb of that name." in said
    assert "steal cannot be used, see below" in said


def test_a_verb_of_a_package_that_is_not_installed(monkeypatch, capsys):
    monkeypatch.setattr(extensions, "_points", lambda *_: {})
    assert main(["fewshot", "--config", "x.py"]) == 1
    assert capsys.readouterr().err == (
        "jaxaug: error: jaxaug fewshot comes with the package jaxaug-papers, which is "
        f"not installed. Run {installed.install_advice()} of jaxaug.\n"
    )
    monkeypatch.setattr(installed, "_ROOT", Path("/nowhere"))
    assert main(["classify"]) == 1
    assert "installed. Install its wheel; the repository" in capsys.readouterr().err


VERB = "def add(verbs):\n    verbs.add_parser({!r})\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (VERB.format("other"), "adds ['other'], expected the verb 'x' alone"),
        (VERB.format("x"), "sets no default `target`, expected 'module:"),
        ("def add(verbs):\n    verbs.nothing()\n", "fails (AttributeError: "),
        ("add = 3\n", "is 3, expected a function"),
    ],
)
def test_invalid_verbs_are_refused(install, source, message):
    install("own", {"jaxaug.verbs": {"x": "own:add"}}, source)
    message = f"of package own: own:add {message}"
    with pytest.raises(UserError, match=re.escape(message)):
        VERBS["x"]
