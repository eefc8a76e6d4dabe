"""`jaxaug errors`: where a run fails."""

from jaxaug.core.files import check_writable
from jaxaug.look import errors_page, errors_text, evaluations, failures
from jaxaug.look.arguments import Errors


def run(arguments: Errors) -> int:
    """Runs the verb; see `jaxaug errors --help`."""
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
