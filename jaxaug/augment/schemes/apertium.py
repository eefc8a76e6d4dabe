"""Back-translation by rules: into another language and back, by the program apertium.

Apertium (Forcada et al., 2011) translates with dictionaries and transfer rules. It
needs a CPU and no model. The program and its data are under the GPL. They run as a
separate process and are no part of jaxaug. On Debian, `apt-get install
apertium-eng-spa` installs a pair of languages.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.paraphrase.literals import keeping

PIVOTS: Mapping[str, tuple[str, str, str]] = {
    "spa": ("eng-spa", "spa-eng", "apertium-eng-spa"),
    "cat": ("eng-cat", "cat-eng", "apertium-eng-cat"),
    "glg": ("en-gl", "gl-en", "apertium-en-gl"),
    "epo": ("en-eo", "eo-en", "apertium-eo-en"),
    "hbs": ("eng-hbs", "hbs-eng", "apertium-hbs-eng"),
}
"""Language -> direction into it, direction from it, and the package of Debian."""
# Without a full stop the program joins some lines, such as one that ends in "non-stop".
_END = " ."
PROGRAM, TIMEOUT = "apertium", 300.0


@keeping
def candidates(
    texts: Sequence[str],
    *,
    pivots: str | Sequence[str] = ("spa",),
    num: int | None = None,
    program: str = PROGRAM,
    timeout: float = TIMEOUT,
    seed: int = 0,
) -> list[list[str]]:
    """Returns texts translated back from each pivot language, without repetitions.

    Args:
        texts: texts in English.
        pivots: keys of `PIVOTS`.
        num: maximum outputs of a text; None is one per language.
        program: name or path of the program.
        timeout: seconds for one direction of all texts.
        seed: ignored, as the rules draw nothing.

    Returns:
        For each text, at most one output per language, in the order of the languages,
        including copies of the text itself.

    Raises:
        UserError: a language is unknown, or the program or the data of a language are
            missing, or it takes longer than `timeout`.
    """
    del seed
    if num is not None and num < 1:
        raise UserError(f"num={num}: give at least 1.")
    found: list[dict[str, None]] = [{} for _ in texts]
    for pivot in _languages(pivots):
        there, back, package = PIVOTS[pivot]
        fix = f"Install it, on Debian by `apt-get install {package}`."
        told = translate(texts, there, fix, program=program, timeout=timeout)
        outputs = translate(told, back, fix, program=program, timeout=timeout)
        for own, output in zip(found, outputs, strict=True):
            own |= {output: None} if output else {}
    return [list(own)[:num] for own in found]


def translate(
    texts: Sequence[str],
    direction: str,
    fix: str,
    *,
    program: str = PROGRAM,
    timeout: float = TIMEOUT,
) -> list[str]:
    """Returns the translation of each text; a blank text has a blank one.

    Args:
        texts: texts; white space counts as one blank.
        direction: name of a mode of the program, such as `eng-spa`.
        fix: advice if the program or its data are missing.
        program: name or path of the program.
        timeout: seconds for all texts.

    Raises:
        UserError: see `candidates`.
    """
    lines = [" ".join(text.split()) for text in texts]
    full = [line for line in lines if line]
    command = [program, "-u", "-n", "-f", "line", direction]
    found = _called(command, full, fix, timeout) if full else []
    if len(found) != len(full):
        # The program joined two lines: give it one at a time.
        found = [" ".join(_called(command, [line], fix, timeout)) for line in full]
    outputs = iter(found)
    return [next(outputs) if line else "" for line in lines]


def _called(
    command: Sequence[str], lines: Sequence[str], fix: str, timeout: float
) -> list[str]:
    """Returns the lines that a program writes for some lines, stripped."""
    name = f"{command[0]} {command[-1]}"
    try:
        # The program starts others, which a time-out must end too.
        running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise UserError(
            f"{command[0]}: the program cannot be started ({error.strerror}). {fix}"
        ) from None
    try:
        text = "".join(f"{line}{_END}\n" for line in lines)
        output, said = running.communicate(text, timeout)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{name}: no translation of {len(lines)} texts after {timeout:g} s. Raise "
            "the option timeout, or give fewer texts."
        ) from None
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    if running.returncode:
        last = (said or output).strip().rpartition("\n")[2]
        raise UserError(
            f"{name}: the program failed with status {running.returncode} ({last}). "
            f"{fix}"
        )
    return [
        " ".join(line.split()).removesuffix(_END.strip()).rstrip()
        for line in output.removesuffix("\n").split("\n")
    ]


NAMES = ("program", "timeout")


def models(options: Mapping[str, Any]) -> list[str]:
    del options
    return []


def version(options: Mapping[str, Any]) -> str:
    """Returns the version of the program, for keys.

    Raises:
        UserError: the program is missing.
    """
    first = _languages(options["pivots"])[0]
    fix = f"Install it, on Debian by `apt-get install {PIVOTS[first][-1]}`."
    return " ".join(_called([options["program"], "-V"], [], fix, options["timeout"]))


def most(options: Mapping[str, Any]) -> int:
    number = len(_languages(options["pivots"]))
    return number if options["num"] is None else min(options["num"], number)


def _languages(pivots: str | Sequence[str]) -> Sequence[str]:
    names = pivots.split(",") if isinstance(pivots, str) else list(pivots)
    for name in names or [""]:
        if name not in PIVOTS:
            raise UserError(
                f"pivots: {name!r} is no language of the scheme; "
                f"{suggestion(name, PIVOTS)}"
            )
    return names
