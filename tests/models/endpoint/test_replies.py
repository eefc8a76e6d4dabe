"""Paraphrases in the replies of chat models."""

import pytest

from jaxaug.models.endpoint.replies import paraphrases


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"paraphrases": ["a b", " c  d "]}', ["a b", "c d"]),
        ('["a", "b"]', ["a", "b"]),
        ('```json\n{"paraphrases": ["a"]}\n```', ["a"]),
        ('{"paraphrases": [{"text": "a"}, {"number": 2}, 3, "", "\\ud800"]}', ["a"]),
        ('{"rewordings": ["a"]} and this is why', ["a"]),
        ('<think>1. no\n{"</think>{"paraphrases": ["a"]}', ["a"]),
        ('{"paraphrases": ["a \\"b\\"", "c", "cut o', ['a "b"', "c"]),
        ('{"paraphrases": ["cut o', []),
        ('{"answer": 1}', []),
        ("Here:\n1. a\n2) **b**\n(3) \"c\"\n\n- d\nThat is all.", list("abcd")),
        ("Sure! The hotel's city could be called the town of the hotel.", []),
        ("1. Paraphrase 1: a\n2. Each paraphrase: 2. b\n3. **Paraphrase**: c",
         list("abc")),
        ("1. 1.1.1.1\n2. ?\n3. été", ["été"]),
        ("", []),
    ],
)  # fmt: skip
def test_paraphrases(content: str, found: list[str]):
    assert paraphrases(content) == found
