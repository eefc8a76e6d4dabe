"""Scores of decoders from the numbers of each source."""

import numpy as np
import pytest
import sacrebleu

from jaxaug_papers.dips import quora_table

pytest.importorskip("nltk")

OUTPUTS = [["A b c", "a d"], ["x", "x y z w"], ["q r", "q r s"]]
REFERENCES = ["a b d", "x y", "q r s t"]


def test_scores_follow_from_the_numbers_of_sources():
    rows = quora_table.sentences(OUTPUTS, REFERENCES)
    sums = dict(zip(quora_table.SENTENCE, rows.sum(axis=0), strict=True))
    every = [text.lower() for texts in OUTPUTS for text in texts]
    twice = [text for text in REFERENCES for _ in range(2)]
    bleu = sacrebleu.BLEU(max_ngram_order=2).corpus_score(every, [twice])
    assert [sums["matched 1"], sums["matched 2"]] == bleu.counts == [12, 5]
    assert [sums["all 1"], sums["all 2"]] == bleu.totals == [15, 9]
    assert (sums["words"], sums["BLEU words"]) == (bleu.sys_len, bleu.ref_len)
    # Of the first outputs: c -> d, y is missing, s and t are missing.
    assert (sums["edits"], sums["TER words"]) == (4, 9)
    values = quora_table.figures(OUTPUTS, REFERENCES, rows)
    assert values[0] == pytest.approx(100 * np.mean([4 / 5, 4 / 5, 3 / 5]))
    assert values[4] == pytest.approx(bleu.score)
    assert values[8] == pytest.approx(100 * 4 / 9)
