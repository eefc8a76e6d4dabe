"""`jaxaug errors`: where a run fails."""

import argparse

from jaxaug.core.errors import UserError
from jaxaug.core.files import check_writable
from jaxaug.look import errors_page, errors_text, evaluations, failures


def run(arguments: argparse.Namespace) -> int:
    """Runs the verb; see `jaxaug errors --help`.

    Raises:
        UserError: the limit is below 1; see also `evaluations.find` and
            `failures.count`.
    """
    if arguments.limit < 1:
        raise UserError(f"--limit {arguments.limit}: use 1 or more. The default is 5.")
    if arguments.html:
        check_writable(arguments.html, "--html")
    evaluation = evaluations.find(
        arguments.run, arguments.task, arguments.data_dir, arguments.split
    )
    found = failures.count(evaluation, arguments.exact, arguments.limit)
    print(errors_text.text(evaluation, found, arguments.limit))
    if arguments.html:
        errors_page.write(arguments.html, evaluation, found)
        print(f"\nwritten: {arguments.html}")
    return 0
