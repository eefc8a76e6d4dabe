"""`jaxaug papers ab`: a blinded A/B sheet, and the tests of its votes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxaug.core import files
from jaxaug.core.errors import UserError
from jaxaug_papers.ab import sheet as sheets
from jaxaug_papers.ab import votes as voting
from jaxaug_papers.ab.arguments import AB


def run(arguments: AB) -> int:
    """Runs `jaxaug papers ab`."""
    names = arguments.names or [Path(path).stem for path in arguments.files]
    if names[0] == names[1]:
        raise UserError(f"both files are named {names[0]!r}. Give --names.")
    if arguments.votes:
        found = [voting.read(path) for path in arguments.votes]
        sheet = _sheet(arguments.files, found[0].sheet)
        voting.check(sheet, found)
        print(voting.report(sheet, found, names))
        return 0
    settings = {
        "questions": arguments.questions, "num": arguments.num, "seed": arguments.seed
    }  # fmt: skip
    sheet = _sheet(arguments.files, settings)
    assert arguments.out is not None  # Without votes it is required.
    files.check_writable(arguments.out)
    files.write_text(arguments.out, sheets.page(sheet, settings))
    left_out = f", {sheet.left_out} inputs have equal outputs" if sheet.left_out else ""
    print(
        f"{arguments.out}: {len(sheet.pairs)} pairs, {len(sheet.questions)} questions "
        f"each{left_out}. Open it in a browser; then\n"
        f"jaxaug papers ab {' '.join(arguments.files)} --votes FILE..."
    )
    return 0


def _sheet(paths: Sequence[str], settings: Any) -> sheets.Sheet:
    first, second = map(sheets.outputs, paths)
    questions = sheets.questions_of(settings["questions"])
    return sheets.make(first, second, questions, settings["num"], settings["seed"])
