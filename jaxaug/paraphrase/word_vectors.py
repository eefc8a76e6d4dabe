"""Word embeddings for a model's tokens, from a file of vectors or another model.

DiPS compares words by them (`--option embeddings=FILE|MODEL`). Its default is the table
of the paraphrasing model.
"""

from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Float

from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import byte_lines
from jaxaug.models.layers import int8
from jaxaug.models.text import registry
from jaxaug.models.text.language import LanguageModel

Table = Float[np.ndarray, "vocab d"]


def table(name: str, model: registry.TextModel | LanguageModel) -> tuple[Table, str]:
    """Returns an embedding table for the token ids of `model`, and its digest.

    Each token gets the vector of its text, or zeros if there is no vector. In a file,
    this is the vector of the word, else of the word in lower case. In another model, it
    is the mean of the vectors of that model's tokens in the text.

    Args:
        name: a text file (local or gs://) with a word and its numbers in each line, in
            the format of GloVe and word2vec (a first line of two counts is optional);
            or a model, see `jaxaug.models.text.registry.load`.

    Raises:
        UserError: the file is not in this format or contains no token of the model, or
            `name` is neither a file nor a model.
    """
    texts = token_texts(model)
    path = epath.Path(name)
    found = _of_file(path, texts) if path.is_file() else _of_model(name, texts)
    if not found.any():
        raise UserError(
            f"embeddings={name}: has none of the model's words. Name vectors of the "
            "same language."
        )
    return found, digest_of([found.tobytes().hex()])


def token_texts(model: registry.TextModel | LanguageModel) -> list[str]:
    """Returns the text of every token id, without surrounding white space."""
    words = model.output_vocabulary
    return [words.decode([index]).strip() for index in range(words.vocab_size)]


def _of_file(path: epath.Path, texts: list[str]) -> Table:
    places: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        for form in {text, text.lower()} - {""}:
            places.setdefault(form, []).append(index)
    found: Table | None = None
    exact: set[int] = set()
    # Read as bytes: some published files hold words that are not UTF-8.
    with path.open("rb") as lines:
        for number, line in enumerate(byte_lines(lines), 1):
            text = line.decode("utf-8", "replace").rstrip()
            word, _, rest = text.partition(" ")
            if number == 1 and rest.isdigit():
                continue
            try:
                vector = np.array(rest.split(), np.float32)
            except ValueError:
                vector = np.zeros(0, np.float32)
            if found is None:
                found = np.zeros((len(texts), len(vector)), np.float32)
            if not len(vector) or len(vector) != found.shape[1]:
                raise UserError(
                    f"{path}: line {number} holds {len(vector)} numbers after its "
                    f"word, {found.shape[1] or 'at least one'} expected. Give a word "
                    "and its vector in each line, with blanks between."
                )
            for index in places.get(word, ()):
                # The word with the same case wins over the word in lower case.
                if texts[index] == word or index not in exact:
                    found[index] = vector
                if texts[index] == word:
                    exact.add(index)
    if found is None:
        raise UserError(f"{path}: holds no vectors. Give a word and its vector a line.")
    return found


def _of_model(name: str, texts: list[str]) -> Table:
    try:
        other = registry.load(name)
    except UserError as error:
        raise UserError(
            f"embeddings={name}: is neither a file nor a model: {error}"
        ) from None
    params: Any = other.params
    if isinstance(other, LanguageModel):
        words, params = other.vocabulary, params["decoder"]
    else:
        words = other.input_vocabulary
    rows = np.asarray(int8.table(params["token_embedder"]), np.float32)
    # Some published vocabularies have ids beyond the rows of the table.
    offset = getattr(getattr(other.module, "config", None), "id_offset", 0)
    found = np.zeros((len(texts), rows.shape[1]), np.float32)
    for index, text in enumerate(texts):
        tokens = [token - offset for token in words.encode(" " + text)] if text else []
        if tokens:
            found[index] = rows[tokens].mean(axis=0)
    return found
