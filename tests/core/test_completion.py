"""Completion of the command line, requested as a shell does."""

import pytest

from jaxaug import cli
from tests.support.programs import ran

ASK = """source /dev/stdin <<< "$SCRIPT"
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
complete -p jaxaug > /dev/null || exit 1
_shtab_jaxaug "jaxaug" "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(capsys: pytest.CaptureFixture, shell: str) -> str:
    assert cli.main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        ("jaxaug da", ["data"]),
        ("jaxaug --v", ["--version"]),
        ("jaxaug completion ''", ["bash", "zsh"]),
        ("jaxaug data v", ["variants"]),
        ("jaxaug format d3st --cat", ["--categorical"]),
        ("jaxaug data variants --split ''", ["train", "dev", "test"]),
        ("jaxaug report runs/se", ["runs/seed0"]),
        ("jaxaug predict --run runs/se", ["runs/seed0"]),
    ],
)
def test_bash(tmp_path, capsys, words, answers):
    (tmp_path / "runs/seed0").mkdir(parents=True)
    done = ran(
        ["bash", "-c", ASK.format(words=words)],
        cwd=tmp_path,
        env={"SCRIPT": script(capsys, "bash"), "PATH": "/usr/bin:/bin"},
    )
    assert (done.stdout.split(), done.stderr) == (answers, "")


def test_zsh(capsys):
    text = script(capsys, "zsh")
    assert text.startswith("#compdef jaxaug\n")
    assert "predict the states of dialogues with a trained tracker" in text
    assert '"--program[(default\\: train)]:program:(train eval infer)"' in text
    assert '"--run[folder of a training run, or a checkpoint in it]:run:_files"' in text


def test_a_shell_that_is_not_known(capsys):
    with pytest.raises(SystemExit):
        cli.main(["completion", "sh"])
    assert "invalid choice: 'sh'" in capsys.readouterr().err
