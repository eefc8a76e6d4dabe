"""Loads trackers from the Hugging Face hub, and uploads them with a model card."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import jax
import numpy as np
from etils import epath

import jaxaug
from jaxaug.core import typed
from jaxaug.core.columns import markdown, markdown_head
from jaxaug.core.errors import UserError
from jaxaug.core.installed import missing_extra
from jaxaug.data.schema import Schema, service_object
from jaxaug.feed import run_choices
from jaxaug.metrics import report, statistics
from jaxaug.metrics.report import COLUMNS, Run
from jaxaug.models.text import checkpoint, run_config

SCHEMA = "schema.json"
CARD = "README.md"
_CONFIG = "config.gin"
_REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)
# Files that are needed to load a run, apart from its checkpoint.
_FILES = (_CONFIG, "config_digest.json", "choices.json", "vocabulary.*")
_REPORTS = f"inference_eval/{report.REPORT_FOLDER}/*"


def _repository_problem(value: Any) -> str | None:
    if isinstance(value, str) and _REPOSITORY.fullmatch(value):
        return None
    return "give OWNER/NAME, with letters, digits, `-`, `_`, and `.`"


class OnHub:
    """Base class of a tracker, with its methods for the Hugging Face hub."""

    schema: Schema
    _run: str
    _params: Any

    @classmethod
    @typed.checked
    def from_pretrained(
        cls,
        name: typed.Path,
        schema: typed.Path | Schema | None = None,
        *,
        revision: typed.Text | None = None,
        token: typed.Text | None = None,
        **options: Any,
    ) -> Self:
        """Returns a tracker of the Hugging Face hub.

        Args:
            name: repository `OWNER/NAME` that `push_to_hub` made, or a local copy of
                its files.
            schema: schema of other services, or its file; None means the services that
                were uploaded with the tracker.
            revision: branch, tag, or commit; None means the main branch.
            token: access token; None means the token of `hf auth login`.
            **options: the arguments `batch_size` and `robust` of `load`.

        Raises:
            UserError: the extra `hf` is not installed, or there is no such tracker.
        """
        local = epath.Path(name)
        folder = local if local.is_dir() else _fetched(str(name), revision, token)
        own = folder / SCHEMA
        return cls.load(folder, schema or own, **options)  # type: ignore[attr-defined]

    @typed.checked
    def push_to_hub(
        self,
        repo_id: Annotated[str, _repository_problem],
        *,
        license: typed.Text | None = None,
        private: bool = False,
        token: typed.Text | None = None,
    ) -> str:
        """Uploads the run, its services, and a model card; returns the address.

        The card gives the data, the results with intervals, and the command of the run.
        `config.gin` and `choices.json` are uploaded unchanged, with the paths in them.

        Args:
            repo_id: repository, as `OWNER/NAME`.
            license: license by its identifier of the hub, such as "apache-2.0"; None
                states no license.
            private: whether a new repository is private.
            token: access token; None means the token of `hf auth login`.

        Raises:
            UserError: the tracker was not loaded from a run, the extra `hf` is not
                installed, or the hub refuses.
        """
        if not self._run:
            raise UserError(
                "the tracker was not loaded from a run, which has the files to upload. "
                "Make it with Tracker.load."
            )
        hub = _client()
        chosen = checkpoint.chosen(epath.Path(self._run))
        root, services = chosen.parent, [*map(service_object, self.schema.services)]
        size = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(self._params))
        contents: dict[str, Any] = {n: str(root / n) for n in _names(root, chosen.name)}
        card = model_card(root, chosen.name, repo_id, self.schema, size, license)
        schema = json.dumps(services, ensure_ascii=False, indent=1) + "\n"
        contents |= {SCHEMA: schema.encode(), CARD: card.encode()}
        operations = [hub.CommitOperationAdd(*one) for one in contents.items()]
        client = hub.HfApi(token=token)
        said = f"Upload {chosen.name} of a tracker"
        try:
            address = client.create_repo(repo_id, private=private, exist_ok=True)
            client.create_commit(repo_id, operations, commit_message=said)
        except Exception as error:  # noqa: BLE001 - of several libraries
            raise _failed(repo_id, "uploaded to", error) from None
        return str(address)


def _fetched(repo_id: str, revision: str | None, token: str | None) -> epath.Path:
    """Downloads a tracker into the cache of the hub's client.

    Args:
        revision: branch, tag, or commit; None means the main branch.
        token: access token; None means the token of `hf auth login`.

    Returns:
        The folder of the run.

    Raises:
        UserError: the extra `hf` is not installed, the repository does not exist, or
            it contains no tracker.
    """
    hub = _client()
    try:
        found = hub.snapshot_download(repo_id, revision=revision, token=token)
    except Exception as error:  # noqa: BLE001 - of several libraries
        raise _failed(repo_id, "downloaded from", error) from None
    folder = epath.Path(found)
    for name in (_CONFIG, SCHEMA):
        if not (folder / name).is_file():
            raise UserError(
                f"{repo_id} on the Hugging Face hub has no {name}, so it is not a "
                "tracker. Name a repository that Tracker.push_to_hub has made."
            )
    return folder


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise missing_extra(
            "the client of the Hugging Face hub (huggingface-hub) is not installed",
            "huggingface_hub",
        ) from None
    return huggingface_hub


def _failed(repo_id: str, what: str, error: Exception) -> UserError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return UserError(
        f"{repo_id} cannot be {what} the Hugging Face hub: {lines[0]} Give OWNER/NAME, "
        "check the network, and log in with `hf auth login`."
    )


def _names(root: epath.Path, chosen: str) -> Iterator[str]:
    """Yields the files that a tracker and its card need, relative to the run folder."""
    local = Path(root)
    for pattern in (*_FILES, f"{chosen}/**/*", _REPORTS):
        for path in sorted(local.glob(pattern)):
            if path.is_file():
                yield path.relative_to(local).as_posix()


_CARD = """\
# {name}

A tracker of dialogue states that reads the descriptions of a schema, trained with
jaxaug {version}: {parameters:,} parameters, `{chosen}`.

```python
import jaxaug

tracker = jaxaug.Tracker.from_pretrained("{repo_id}")
print(tracker.predict("USER: ...").as_json())
```

It answers about the services of `schema.json` ({services}). `schema=` names another file.

## Data

Trained on `{trained}` of {data}, with {inputs} tokens of input and {targets} of target.

## Results

{results}

## Command

`config.gin` is the resolved configuration:

    {command}

## License

{license}
"""


def model_card(
    root: epath.Path,
    chosen: str,
    repo_id: str,
    schema: Schema,
    parameters: int,
    license: str | None,
) -> str:
    """Returns the model card of a run as Markdown with metadata.

    Data, command, and results come from the run folder. Values of path variables are
    shortened to their last component.

    Args:
        license: license by its identifier of the hub; None states no license.
    """
    rows, notes = _results(root)
    choices = run_choices.read(root)
    name = repo_id.rpartition("/")[2]
    data = choices.get("JAXAUG_DATA_DIR", "MiniSGD").rstrip("/").rpartition("/")[2]
    results = [*(_table(rows) if rows else [_UNSCORED]), *(f"\n{n}." for n in notes)]
    text = _CARD.format(
        name=name,
        version=jaxaug.__version__,
        parameters=parameters,
        chosen=chosen,
        repo_id=repo_id,
        services=", ".join(f"`{one.name}`" for one in schema.services),
        trained=run_config.build(root / _CONFIG, "MIXTURE_OR_TASK_NAME"),
        data=data,
        **run_config.build(root / _CONFIG, "TASK_FEATURE_LENGTHS"),
        results="\n".join(results),
        command=_command(choices),
        license=license or "No license is stated.",
    )
    return _metadata(name, data, rows, license) + text


_UNSCORED = "The run has no robustness report. `jaxaug robustness RUN` makes one."


def _results(root: epath.Path) -> tuple[Sequence[Run], list[str]]:
    """Returns the rows of a run's report with intervals, and sentences about them."""
    if not report.report_files(root):
        return [], []
    found = statistics.statistics_of(runs := report.read_runs(root))
    notes = [report.LEGEND, *report.notes_on_wordings(runs)]
    if found.groups:
        notes += statistics.method(found)
    return statistics.with_intervals(runs, found), notes


def _table(rows: Sequence[Run]) -> list[str]:
    """Returns a Markdown table of figures with intervals, in per cent."""
    lines = [markdown_head(["figure", "value", "95% interval"])]
    for run in rows:
        for column, heading in COLUMNS.items():
            low, high = run.intervals.get(column, (math.nan, math.nan))
            ends = "" if math.isnan(low) else f"{100 * low:.1f} to {100 * high:.1f}"
            first = heading if len(rows) == 1 else f"{run.name}: {heading}"
            lines.append(markdown([first, report.cell(run, column), ends]))
    return lines


def _command(choices: Mapping[str, str]) -> str:
    shown = [f"{name}={value.rpartition('/')[2]}" for name, value in choices.items()]
    return " ".join([*shown, f"python -m t5x.train --gin_file={_CONFIG}"])


def _metadata(name: str, data: str, rows: Sequence[Run], license: str | None) -> str:
    """Returns the metadata of the card between two lines of hyphens."""
    hub = _client()
    results = [
        hub.EvalResult(
            task_type="dialogue-state-tracking",
            dataset_type=data.lower(),
            dataset_name=data,
            metric_type=column,
            metric_name=COLUMNS[column],
            metric_value=round(100 * value, 2),
        )
        for run in rows
        for column, value in run.figures.items()
        if not math.isnan(value)
    ]
    about = hub.ModelCardData(
        license=license,
        library_name="jaxaug",
        tags=["dialogue-state-tracking", "schema-guided-dialogue", "jax"],
        model_name=name if results else None,
        eval_results=results or None,
    )
    return f"---\n{about.to_yaml()}\n---\n\n"
