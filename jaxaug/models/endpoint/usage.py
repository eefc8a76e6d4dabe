"""Requests, tokens, and cost of an endpoint, counted and estimated."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_CHARACTERS = 4  # Per token of English text.


def tokens(text: str) -> int:
    """Returns an estimated token count; the tokenizer of the server is unknown."""
    return -(-len(text) // _CHARACTERS)


def asked_tokens(body: Mapping[str, Any]) -> int:
    """Returns an estimated token count of a request: its messages and its tools."""
    texts = [str(one.get("content") or "") for one in body["messages"]]
    tools = json.dumps(body["tools"]) if body.get("tools") else ""
    return sum(map(tokens, texts)) + tokens(tools)


@dataclass
class Usage:
    """Actual or estimated use of a server.

    Attributes:
        requests: HTTP requests, including repeated ones.
        kept: replies that were read from the cache instead.
        served: names of the model in the replies.
    """

    requests: int = 0
    kept: int = 0
    read: int = 0
    written: int = 0
    is_estimate: bool = False
    served: set[str] = field(default_factory=set)

    def cost(self, prices: tuple[float, float]) -> float:
        """Returns the cost in dollars, from prices per million tokens."""
        return (self.read * prices[0] + self.written * prices[1]) / 1e6

    def text(self, prices: tuple[float, float] | None) -> str:
        """Returns one line with requests, tokens, and cost."""
        about = "about " if self.is_estimate else ""
        parts = [
            f"{self.requests:,} requests",
            f"{self.kept:,} replies from the cache",
            f"{about}{self.read:,} tokens of input, {self.written:,} of output",
        ]
        if prices is None:
            parts.append("cost unknown (prices are not given)")
        else:
            parts.append(f"${self.cost(prices):.4f}")
        return "; ".join(parts)

    def others(self, name: str) -> list[str]:
        """Returns the names under which the model answered, other than `name`."""
        return sorted(self.served - {name})


def estimate(prompts: Iterable[tuple[str, int, str]], kept: int) -> Usage:
    """Returns the estimated usage of requests that were not sent.

    Args:
        prompts: (prompt, number of paraphrases, text to paraphrase) of each request.
    """
    found = Usage(kept=kept, is_estimate=True)
    for prompt, count, text in prompts:
        found.requests += 1
        found.read += tokens(prompt)
        # Each paraphrase is surrounded by quotes, commas, and numbers: about 4 tokens.
        found.written += count * (tokens(text) + 4)
    return found
