"""Folders of gin files that installed packages offer."""

from t5x.start import macros


def install(folder, name, value):
    """Writes a distribution with one entry point to `folder`, as pip would."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(f"[{macros.GROUP}]\n{name} = {value}\n")


def test_packages_offer_folders(tmp_path, monkeypatch, capsys):
    before = macros.offered()
    (tmp_path / "zz_offers.py").write_text("def folder():\n    return '/there/gin'\n")
    install(tmp_path, "zzoffers", "zz_offers:folder")
    install(tmp_path, "zzbroken", "zz_nothing:folder")
    monkeypatch.syspath_prepend(tmp_path)
    capsys.readouterr()
    assert macros.offered() == [*before, "/there/gin"]
    said = capsys.readouterr()
    assert (
        "warning: the gin files of zzbroken are not found: zz_nothing:folder "
        '(t5x.gin_search_paths) fails with ModuleNotFoundError("No module named '
        "'zz_nothing'\"). Install that package again.\n"
    ) in said.out + said.err
