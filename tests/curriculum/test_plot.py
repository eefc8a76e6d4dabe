from jaxaug.curriculum import schedule


def test_text_shows_the_share_of_each_level():
    found = schedule.cyclic(50, levels=2)
    assert schedule.plot_text(found, width=12).splitlines() == [
        "curriculum: 6 stages, 300 steps",
        "level 2 |    ##    ##|",
        "level 1 |  ##    ##  |",
        "level 0 |##....##....|",
        "         0        300  steps",
        "         share of a level: . below 25%, - below 50%, + below 75%, # above",
    ]


def test_every_stage_has_a_column():
    found = schedule.cyclic(1, levels=2, cycles=9, original_fraction=0.0)
    lines = schedule.plot_text(found, width=5).splitlines()
    assert lines[1] == "level 2 |" + "  #" * 9 + "|"


def test_shades_are_quarters():
    found = schedule.staged((1,), ((0.0, 0.05, 0.25, 0.5, 0.2),), tuple("abcde"))
    rows = [line[-3:] for line in schedule.plot_text(found, width=1).splitlines()[1:6]]
    assert rows == ["|.|", "|+|", "|-|", "|.|", "| |"]


def test_png(tmp_path):
    schedule.write_png(tmp_path / "c.png", schedule.cyclic(10))
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    assert [path.name for path in tmp_path.iterdir()] == ["c.png"]
