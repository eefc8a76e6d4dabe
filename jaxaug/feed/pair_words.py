"""Vocabulary of paraphrase pairs: their most frequent words, as in the DiPS paper.

vocabulary.default_vocabulary.path = @pair_words.path_of()
pair_words.path_of:
  task = 'paraphrase_quora_both'
  size = 30000

It is built from the training pairs only. Other words become the unknown word. The rules
of `jaxaug.feed.vocabulary` separate punctuation. The trained run keeps a copy.
"""

import hashlib

from etils import epath

from jaxaug.core import cache_folder
from jaxaug.core.cached import published_file
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.suggestion import suggestion
from jaxaug.data import pairs
from jaxaug.feed import vocabulary

_PREFIX, _BOTH = "paraphrase_", "_both"
# Part of the file name: increase it when the words change.
_VERSION = 1


def path_of(task: str, size: int = 30_000, root: PathLike | None = None) -> str:
    """Returns the path of a word model of a task's texts; builds it if missing.

    Args:
        task: `paraphrase_NAME` or `paraphrase_NAME_both` of `jaxaug.data.pairs.named`.
        size: maximum number of pieces, including padding, end, and unknown word.
        root: parent folder; None means `$JAXAUG_CACHE_DIR`.

    Raises:
        UserError: there is no such task, its pairs are wrong, or `size` leaves no
            words.
    """
    sources = pairs.named()
    name = task.removeprefix(_PREFIX).removesuffix(_BOTH)
    if name not in sources:
        known = [f"{_PREFIX}{source}" for source in sources]
        raise UserError(
            f"pair_words.path_of: task {task!r} has no pairs of its own; "
            f"{suggestion(task, known)}"
        )
    if size < 8:
        raise UserError(
            f"pair_words.path_of: size is {size}, expected 8 or more: three pieces "
            f"are no words."
        )
    texts = [text for pair in sources[name].of_split("train") for text in pair]
    digest = hashlib.blake2b(f"{_VERSION} {size}\n".encode(), digest_size=12)
    digest.update("\n".join(texts).encode())
    file = f"pairs-{digest.hexdigest()}"
    parent = epath.Path(root or cache_folder.cache_dir()) / "vocabularies" / file
    made = published_file(
        parent / f"{file}.model",
        lambda: vocabulary.sentencepiece_model(
            texts, model_type="word", vocab_size=size, hard_vocab_limit=False
        ),
    )
    return str(made)


def metric_of(task: str, metric: str = "inference_eval/bleu") -> str:
    """Returns the logged name of a validation metric, for `SaveBestCheckpointer`.

    `metric` is a kind of evaluation and a name, such as `training_eval/accuracy`.
    """
    kind, _, name = metric.partition("/")
    return f"{kind}/{task}/{name}"
