"""The gin files of the repository, by the names under which programs find them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def gin_files() -> dict[str, Path]:
    """Returns name, such as `configs/d3st.gin` -> path, of library and papers."""
    papers = sorted((ROOT / "papers/jaxaug_papers").glob("*/configs"))
    return {
        path.relative_to(folder.parent).as_posix(): path
        for folder in (ROOT / "configs", *papers)
        for path in sorted(folder.rglob("*.gin"))
    }
