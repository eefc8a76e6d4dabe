"""Each public package of jaxaug has a docstring and a list of its names."""

import importlib
import importlib.util
from types import ModuleType

import pytest

from tests.support.programs import python_says

PACKAGES = (
    "core", "data", "formats", "feed", "tools", "metrics", "decode", "models",
    "paraphrase", "augment", "curriculum", "track",
)  # fmt: skip


@pytest.mark.parametrize("name", PACKAGES)
def test_names_are_there(name: str):
    package = importlib.import_module(f"jaxaug.{name}")
    assert package.__all__
    for public in package.__all__:
        found = getattr(package, public)
        # `from jaxaug.x import y` gives the module y if it exists.
        is_module = importlib.util.find_spec(f"jaxaug.{name}.{public}") is not None
        assert isinstance(found, ModuleType) == is_module
    # More than a headline: the docstring shows the first steps.
    assert len((package.__doc__ or "").strip().splitlines()) > 2


def test_an_unknown_name_is_an_attribute_error():
    package: ModuleType = importlib.import_module("jaxaug.data")
    with pytest.raises(AttributeError, match="No jaxaug.data attribute nonsense"):
        package.nonsense  # noqa: B018


def test_importing_a_package_loads_none_of_its_modules():
    modules = [f"jaxaug.{name}" for name in PACKAGES]
    script = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print(sorted({'jax', 'flax', 'numpy', 'etils'} & set(sys.modules)))"
    )
    assert python_says(script) == "[]"
