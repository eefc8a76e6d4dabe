"""The environment in which scripts of launch/ find the stand-ins of a test."""

import os


def environment(tools, **more):
    path = f"{tools.folder}{os.pathsep}{os.environ['PATH']}"
    home = str(tools.folder.parent)
    return {"PATH": path, "HOME": home, "JAXAUG_PYTHON": "python-shows", **more}
