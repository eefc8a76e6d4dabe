"""`python -m jaxaug`: the command line."""

from jaxaug.cli import command

if __name__ == "__main__":
    command()
