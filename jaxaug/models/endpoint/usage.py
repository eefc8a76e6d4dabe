"""Requests, tokens and cost of an endpoint, counted and estimated."""

from collections.abc import Iterable
from dataclasses import dataclass, field

_CHARACTERS = 4  # Of a token, in English text.


def tokens(text: str) -> int:
    """An estimate of the tokens of a text; the server's tokenizer is not known here."""
    return -(-len(text) // _CHARACTERS)


@dataclass
class Usage:
    """What was or would be asked of a server.

    Attributes:
        requests: HTTP requests, repeated ones included.
        kept: replies that were read from the cache instead.
        read: tokens of prompts.
        written: tokens of replies.
        is_estimate: whether a number of tokens is an estimate.
        served: names of the model in the replies.
    """

    requests: int = 0
    kept: int = 0
    read: int = 0
    written: int = 0
    is_estimate: bool = False
    served: set[str] = field(default_factory=set)

    def cost(self, prices: tuple[float, float]) -> float:
        """Dollars, from prices per million tokens of input and output."""
        return (self.read * prices[0] + self.written * prices[1]) / 1e6

    def text(self, prices: tuple[float, float] | None) -> str:
        """One line with requests, tokens and cost."""
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
        """Names under which the model answered, other than the one asked for."""
        return sorted(self.served - {name})


def estimate(prompts: Iterable[tuple[str, int, str]], kept: int) -> Usage:
    """The usage of requests that were not sent.

    Args:
        prompts: (prompt, number of paraphrases, text to paraphrase) of each request.
        kept: replies that are in the cache.
    """
    found = Usage(kept=kept, is_estimate=True)
    for prompt, count, text in prompts:
        found.requests += 1
        found.read += tokens(prompt)
        # Quotes, commas and numbers around each.
        found.written += count * (tokens(text) + 4)
    return found
