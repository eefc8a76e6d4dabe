"""gin: flags, suggestions of similar names, and the small configurables."""

import functools
import sys
import types

import gin
import numpy as np
import optax
import pytest
from t5x import gin_utils
from t5x.errors import UserError
from t5x.start import gin_config, gin_hints


@pytest.fixture(autouse=True)
def fresh_gin():
    gin.clear_config(clear_constants=True)
    yield
    gin.clear_config(clear_constants=True)


def parse(tmp_path, text, *bindings, **kwargs):
    path = tmp_path / "run.gin"
    path.write_text(text)
    # The path is absolute, because gin keeps the search paths of earlier tests.
    gin_utils.parse_gin_flags(["."], [str(path)], list(bindings), **kwargs)


def mistake(*files, bindings=()):
    """Returns the message about rejected files or bindings."""
    with pytest.raises(UserError) as caught:
        gin_utils.parse_gin_flags(["."], [str(path) for path in files], list(bindings))
    message = str(caught.value)
    assert message.startswith("gin configuration: ")
    return message.removeprefix("gin configuration: ")


HEAD = "from __gin__ import dynamic_registration\nfrom t5x import utils\n"


def test_gin_flags_become_bindings():
    args = ["prog", "--gin.A=1", '--gin.x.y="a=b"', "--gin_file=f", "--v=1"]
    assert gin_utils.rewrite_gin_args(args) == [
        "prog",
        "--gin_bindings=A = 1",
        '--gin_bindings=x.y = "a=b"',
        "--gin_file=f",
        "--v=1",
    ]
    with pytest.raises(ValueError, match="must be of the form .* got: --gin.A"):
        gin_utils.rewrite_gin_args(["prog", "--gin.A"])


def test_later_files_and_bindings_win(tmp_path):
    (tmp_path / "a.gin").write_text("X = 1\nY = 1\nZ = 1\n")
    (tmp_path / "b.gin").write_text("Y = 2\nZ = 2\n")
    gin_utils.parse_gin_flags([str(tmp_path)], ["a.gin", "b.gin"], ["Z = 3"])
    values = [gin.query_parameter(f"{name}/macro.value") for name in "XYZ"]
    assert values == [1, 2, 3]


def test_search_paths_are_tried_in_order(tmp_path):
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "where.gin").write_text(f"WHERE = '{folder}'\n")
    paths = [str(tmp_path / "first"), str(tmp_path / "second")]
    gin_utils.parse_gin_flags(paths, ["where.gin"], [])
    assert gin.query_parameter("WHERE/macro.value") == "first"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("utils.DatasetConfg.split = 'x'",
         "Unknown name 'DatasetConfg'; did you mean 'DatasetConfig'"),
        ("util.DatasetConfig.split = 'x'", "Unknown name 'util'; did you mean 'utils'"),
        ("utils.DatasetConfig.splt = 'x'",
         "Unknown parameter 'splt'; did you mean 'split'"),
        ("import tas", "There is no module 'tas'"),
        ("from t5x import util", "There is no module 't5x.util'; did you mean 'utils'"),
        ("X = abc", "Strings need quotes of their own"),
        ("STEPS = %gin.REQUIRED", "Give --gin.STEPS=VALUE or set STEPS in a gin file"),
        ("STEPS = %gin.REQUIRED\nSTEP = 3",
         "'STEP' is set and nothing refers to it: did you mean 'STEPS'"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file(tmp_path, line, message):
    with pytest.raises(UserError) as caught:
        parse(tmp_path, HEAD + line + "\n")
    assert message in str(caught.value)


def test_mistakes_in_a_binding(tmp_path):
    text = HEAD + "utils.DatasetConfig.split = 'x'\n"
    with pytest.raises(UserError, match="did you mean 't5x.utils.DatasetConfig'"):
        parse(tmp_path, text, "utils.DatasetConfg.split = 'y'")
    with pytest.raises(UserError, match="did you mean 't5x.utils.DatasetConfig'"):
        parse(tmp_path, text, "utils.DatasetConfig.module = @utils.DatasetConfg()")


QUOTES = (
    "the value is no number, text, list, @function or %MACRO. Strings need quotes of "
    "their own: --gin."
)
OPEN = "a bracket or string is not closed."
NAME = "Write --gin.NAME=VALUE, where NAME is a macro or FUNCTION.PARAMETER."


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--gin.MODEL_DIR=runs/x", rf"{QUOTES}MODEL_DIR=\"runs/x\"."),
        ("--gin.STEPS=10 20", rf"{QUOTES}STEPS=\"text\"."),
        ("--gin.STEPS==4", rf"{QUOTES}STEPS=\"text\"."),
        ("--gin.STEPS=1e-3x", rf"{QUOTES}STEPS=\"1e-3x\"."),
        ("--gin.a/b.c=@", rf"{QUOTES}a/b.c=\"text\"."),
        ("--gin.STEPS=%", rf"{QUOTES}STEPS=\"text\"."),
        (
            '--gin.STEPS="abc',
            # Python's tokenizer recognizes an open string since 3.12.
            OPEN if sys.version_info >= (3, 12) else rf"{QUOTES}STEPS=\"text\".",
        ),
        ("--gin.STEPS=", "the value is missing. Write --gin.STEPS=VALUE."),
        ("--gin.A B=3", f"'A B' is no name of a setting. {NAME}"),
        ("--gin.=3", f"'' is no name of a setting. {NAME}"),
        ("--gin.A=[1,", OPEN),
    ],
)
def test_a_binding_that_gin_cannot_parse_is_named(flag, message):
    (binding,) = gin_utils.rewrite_gin_args([flag])
    bindings = ["GOOD = 1", binding.removeprefix("--gin_bindings="), "ALSO_GOOD = 2"]
    assert mistake(bindings=bindings) == f"{flag}: {message}"


def test_brackets_and_indentation_name_their_file(tmp_path):
    inner, outer = tmp_path / "inner.gin", tmp_path / "outer.gin"
    outer.write_text(f"Y = 1\ninclude '{inner}'\n")
    for text, message in (
        ("X = (1", OPEN),
        (
            "a.b:\n    x = 1\n  y = 2\n",
            (
                "line 3: unindent does not match any outer indentation level: correct "
                "the indentation."
            ),
        ),
    ):
        inner.write_text(text)
        for path in (inner, outer):
            first, *where = mistake(path).splitlines()
            assert first == f"{inner}: {message}"
            assert bool(where) == (path == outer)


def test_a_macro_without_a_value_is_named_with_its_place(tmp_path):
    inner, outer = tmp_path / "inner.gin", tmp_path / "outer.gin"
    outer.write_text(f"SPLTS = 1\ninclude '{inner}'\n")
    inner.write_text(HEAD + "\nutils.DatasetConfig.split = %SPLT\n")
    assert mistake(outer) == (
        f"The macro %SPLT is used in {inner}, line 4, but not set; did you mean "
        "'SPLTS'? Set it in a gin file or with --gin.SPLT=VALUE."
    )
    inner.write_text(HEAD)
    found = mistake(inner, bindings=["utils.DatasetConfig.split = %NONE"])
    assert "The macro %NONE is used but not set" in found


@pytest.mark.parametrize("number", ["1e999", "-1e999", "[1, {'a': 1.0e400}]"])
def test_numbers_that_are_not_finite(tmp_path, number):
    """gin would store them as `inf`, which it cannot read, or not at all."""
    with pytest.raises(UserError, match=r"run.gin, line 3: 1\S+ is not finite: give a"):
        parse(tmp_path, f"{HEAD}X = {number}\n")
    with pytest.raises(
        UserError, match=r"--gin.X = \S+.*, line 1: 1\S+ is not finite:"
    ):
        parse(tmp_path, HEAD, f"X = {number}")
    parse(tmp_path, "A = 1.7e308\nB = '1e999'  # 1e999\nC = 0x1e9\nD = 1_0.5\n")


def test_what_is_long_is_shortened(tmp_path):
    number = "9" * 5000
    with pytest.raises(UserError) as caught:
        parse(tmp_path, f"from t5x {number}\n")
    first, *rest = str(caught.value).splitlines()
    begin = "gin configuration: Expected 'import'.  Got NUMBER = 9999"
    assert first.startswith(begin) and first.endswith("9999. (run.gin, line 1)")
    assert len(first) == 600 + len("gin configuration: ")
    assert rest == ['Strings need quotes of their own: --gin.NAME=\\"text\\".']


def test_a_file_that_is_not_there():
    assert "Unable to open file: nowhere.gin" in mistake("nowhere.gin")


def test_the_nearest_file_is_named(tmp_path):
    # Python takes such a folder for a namespace package.
    folder = tmp_path / "nearest_gin_files"
    folder.mkdir()
    (folder / "d3st_aug.gin").write_text("X = 1\n")
    (folder / "t5dst.gin").write_text("include 'nearest_gin_files/d3st_agu.gin'\n")
    for name in ("d3st_agu", "t5dst"):
        with pytest.raises(UserError) as caught:
            gin_utils.parse_gin_flags(
                [str(tmp_path)], [f"nearest_gin_files/{name}.gin"], []
            )
        first, last = str(caught.value).splitlines()[0], str(caught.value).splitlines()
        assert "Unable to open file: nearest_gin_files/d3st_agu.gin." in first
        assert "Did you mean 'nearest_gin_files/d3st_aug.gin'?" in last


def test_unknown_mixtures_are_named_with_the_nearest(tmp_path):
    text = HEAD + (
        "from t5x import gin_utils\n"
        "NAME = 'd3st_evl'\n"
        "a/utils.DatasetConfig.mixture_or_task_name = %NAME\n"
        "b/utils.DatasetConfig.mixture_or_task_name = 'd3st_sgd'\n"
        "c/utils.DatasetConfig.mixture_or_task_name = @gin_utils.sum_fn()\n"
        "gin_utils.sum_fn.var1 = 'd3st_'\n"
        "gin_utils.sum_fn.var2 = 'sg'\n"
    )
    parse(tmp_path, text)
    found = gin_hints.unknown_mixtures(
        {"d3st_sgd": 1}.get, lambda: ["d3st_eval", "d3st_sgd"]
    )
    assert found == [
        f"{place}/DatasetConfig.mixture_or_task_name is '{wrong}': no task or mixture "
        f"is registered under that name; did you mean '{near}'?"
        for place, wrong, near in (
            ("a", "d3st_evl", "d3st_eval"),
            ("c", "d3st_sg", "d3st_sgd"),
        )
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty (0 bytes): give a gin file with bindings, or leave it out."),
        (b" \n\n",
         "is empty (3 bytes): give a gin file with bindings, or leave it out."),
        ("X = 1\n".encode("utf-16"),
         "is not UTF-8 text (it is UTF-16): save it in the encoding UTF-8."),
        (b"X = '\xe9'\n", ("is not UTF-8 text (invalid continuation byte at "
         "byte 5): save it in the encoding UTF-8.")),
        (b"X = 1\0\n", ("is not text (it holds a NUL byte): give a gin file, "
         "in the encoding UTF-8.")),
    ],
)  # fmt: skip
def test_files_that_hold_no_gin(tmp_path, data, message):
    path = tmp_path / "bad.gin"
    path.write_bytes(data)
    assert mistake(path) == f"{path} {message}"
    # The same in a file that includes it.
    outer = tmp_path / "outer.gin"
    outer.write_text(f"Y = 1\ninclude '{path}'\n")
    found = mistake(outer)
    assert found.startswith(f"{path} {message}")
    assert f'In file "{outer}", line 2' in found


def test_files_that_include_themselves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.gin").write_text("X = 1\ninclude 'b.gin'\n")
    (tmp_path / "b.gin").write_text("include 'a.gin'\n")
    first, *places = mistake("a.gin").splitlines()
    assert first == (
        "a.gin includes itself (a.gin -> b.gin -> a.gin): take out one of these "
        "includes."
    )
    assert [p.strip() for p in places[::2]] == [
        'In file "b.gin", line 1',
        'In file "a.gin", line 2',
    ]
    # Including a file twice in sequence is not a cycle.
    (tmp_path / "b.gin").write_text("\ufeffY = 2\n", encoding="utf-8")
    (tmp_path / "a.gin").write_text("include 'b.gin'\ninclude 'b.gin'\n")
    gin_utils.parse_gin_flags(["."], ["a.gin"], [])
    assert gin.query_parameter("Y/macro.value") == 2


def test_an_error_in_a_module_of_the_user_keeps_its_traceback(tmp_path, monkeypatch):
    (tmp_path / "broken_user_module.py").write_text("1 / 0\n")
    (tmp_path / "incomplete_user_module.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        parse(tmp_path, HEAD + "import broken_user_module\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        parse(tmp_path, HEAD + "import incomplete_user_module\n")


def test_a_schedule_that_optax_refuses():
    """There are fewer steps than warm-up steps."""
    # gin keeps one selector for a function, and other tests need optax's own.
    copy = functools.partial(optax.warmup_cosine_decay_schedule)
    functools.update_wrapper(copy, optax.warmup_cosine_decay_schedule)
    schedule = gin.external_configurable(copy, name="a_schedule")
    with pytest.raises(ValueError) as caught:
        schedule(init_value=0.0, peak_value=1.0, warmup_steps=50, decay_steps=5)
    message = gin_config.user_message(caught.value)
    assert message and message.startswith("optax.a_schedule: The cosine_decay_schedule")
    assert "decay_steps=-45" in message and "In call to" not in message
    assert message.endswith("TRAIN_STEPS has to exceed WARMUP_STEPS.")
    # A defect elsewhere keeps its traceback.
    broken = gin.external_configurable(lambda: int("x"), name="broken")
    with pytest.raises(ValueError) as caught:
        broken()
    assert gin_config.user_message(caught.value) is None


def test_a_macro_that_nothing_refers_to_is_reported(tmp_path, capfd):
    text = HEAD + "BATCH_SIZE = 8\nutils.DatasetConfig.batch_size = %BATCH_SIZE\n"
    parse(tmp_path, text, "BATCH_SIZ = 16")
    assert (
        "--gin.BATCH_SIZ has no effect: no gin file refers to %BATCH_SIZ; "
        "did you mean 'BATCH_SIZE'?"
    ) in capfd.readouterr().err


def test_missing_arguments_are_named(tmp_path):
    parse(tmp_path, HEAD + "utils.DatasetConfig.split = 'train'\n")
    with pytest.raises(TypeError) as caught:
        gin.get_configurable("utils.DatasetConfig")()
    message = gin_utils.user_message(caught.value)
    assert message == (
        "DatasetConfig lacks values for ['batch_size', 'mixture_or_task_name', 'seed', "
        "'shuffle', 'task_feature_lengths']: bind them in a gin file."
    )


def test_a_dtype_that_does_not_exist():
    with pytest.raises(TypeError) as caught:
        np.dtype("bfloat17")
    assert gin_utils.user_message(caught.value) == (
        "'bfloat17': there is no such dtype; use 'float32', 'bfloat16' or 'float16'."
    )


def test_what_counts_as_a_mistake_of_the_user():
    assert (
        gin_utils.user_message(UserError("no\n  In call to configurable 'x'")) == "no"
    )
    assert "gone" in gin_utils.user_message(FileNotFoundError(2, "gone", "f"))
    gone = types.new_class(
        "NotFoundError", (Exception,), {}, lambda n: n.update(error_code=5)
    )
    assert gin_utils.user_message(gone("c/a.tsv; No such file\n\t [[op]]")) == (
        "a file that was read is gone: c/a.tsv; No such file If it is in a cache "
        "folder, run the same command again: caches are made again. Restore other data "
        "first."
    )
    assert gin_utils.user_message(ValueError("a defect")) is None
    assert gin_utils.user_message(KeyError("a defect")) is None
    assert gin_hints.nearest("zzzz", ["split"]) == "."


def test_configurables():
    assert gin_utils.sum_fn(1, 2) == 3
    assert gin_utils.bool_fn("") is False
    assert gin_utils.string_split_fn("a,b,c", ",") == ["a", "b", "c"]
    assert gin_utils.string_split_fn("a,b,c", ",", maxsplit=1, index=-1) == "b,c"


def test_provenance_that_gin_does_not_keep():
    with pytest.raises(UserError, match="show_provenance = True: the installed gin"):
        gin_utils.get_gin_config_str(show_provenance=True)


def test_summary_of_the_configuration(tmp_path):
    parse(tmp_path, HEAD + "utils.DatasetConfig.split = 'train'\n")
    written = {}

    class Writer:
        def write_texts(self, step, texts):
            written[step] = texts

        def flush(self):
            written["flushed"] = True

    gin_utils.summarize_gin_config(str(tmp_path / "m"), Writer(), 7)
    config = (tmp_path / "m" / "config.gin").read_text()
    assert "utils.DatasetConfig.split = 'train'" in " ".join(config.split())
    assert "DatasetConfig" in written[7]["config"]
    assert written["flushed"]
