"""A verb: its arguments, and the function that `target` names."""


def words(verbs):
    text = "count the words of a text"
    parser = verbs.add_parser("words", help=text, description=text)
    parser.add_argument("text")
    parser.set_defaults(target="jaxaug_house_verbs:count")


def count(arguments):
    print(len(arguments.text.split()))
