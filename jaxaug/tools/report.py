"""Writes the results of `jaxaug sensitivity` as text, JSON, JUnit XML, and HTML."""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from jaxaug.core import columns, page
from jaxaug.core.columns import percent
from jaxaug.metrics import excess
from jaxaug.tools.arguments import AXES
from jaxaug.tools.better import Better
from jaxaug.tools.cases import Wordings
from jaxaug.tools.measure import (
    KINDS,
    LENGTHS,
    NOT_REWORDED,
    NOT_SHOWN,
    POINTS,
    SENSITIVE,
    TOO_FEW,
    Coverage,
    Described,
    Measured,
)
from jaxaug.tools.models import PROSE, TEXT, TOOL_CALLS

_HEADS = (
    *("description of", "cases", "given", "lowest", "highest", "p"),
    *("worst text", "best text"),
)
_OF_RESULT = (
    *("verdict", "p", "between", "within"),
    *("wording", "loss", "p_loss", "cases"),
)
_RIGHT = (False, True, True, True, True, True, False, False)
_LEGEND = (
    (
        "disagreement: share of pairs of answers to one case of which one is right and "
        "the other is wrong; partly right answers count by the squared difference"
    ),
    (
        "excess: disagreement of answers under different wordings minus disagreement "
        "of answers under one wording; its 95% interval is over cases or dialogues"
    ),
    (
        "sensitive: the answers to each case were permuted, and at most 1 in 50 "
        "permutations had such an excess or such a loss of one wording"
    ),
    "too few cases: a loss of 5 points under one wording could have been missed",
    "control: the given wording, asked again; what differs from it is noise",
    "exact: all calls have the right tool and accepted values, as BFCL matches them",
    "fuzzy: the same, but free texts score as in joint goal accuracy of SGD",
    "flips: disagreement with the answers under the given wording",
    (
        "axis: a change that counts neither in the result nor in its excess; its "
        "own accuracy, excess, and p compare it with the given wording and its "
        "control, and "
        "p is corrected for the number of axes (Holm)"
    ),
    (
        "SS: standard deviation (ddof 1) over the rewordings of the score of a case, "
        "divided by its mean, averaged over the cases with a score above 0 under any "
        "rewording; noise raises it"
    ),
    (
        "given, lowest, highest: per cent of the answers in which the argument had a "
        "right value, or the tool was called when it should be, under a text; with "
        "several texts, chance alone makes them differ"
    ),
    (
        "p: probability of such differences between the texts by chance, corrected for "
        "the number of descriptions (Holm); * at most 0.05"
    ),
)


def sentence(found: Measured) -> str:
    """Returns the result in one sentence."""
    one = found.result
    share = f"{_share(found.coverage, 'all')} texts are reworded"
    if one.verdict == NOT_REWORDED:
        return (
            f"{NOT_REWORDED}: only {share}. Give other wordings with --wordings_from "
            "TOOLS.json ..."
        )
    points = f"{100 * POINTS:g} points under one wording"
    if one.verdict == TOO_FEW:
        more = one.needed - one.cases
        return f"{TOO_FEW}: {more:,} more cases would show a loss of {points}"
    if one.verdict == NOT_SHOWN:
        return (
            f"{NOT_SHOWN}: no answer is shown to depend on the wording; a loss of "
            f"{points} would have been found"
        )
    told = f"{SENSITIVE} (p {_p(one.p)}): answers depend on the wording; "
    if one.p_loss > excess.ALPHA:
        return f"{told}no wording is shown to be right more or less often"
    size, word = abs(one.loss), "less" if one.loss > 0 else "more"
    return (
        f"{told}{one.wording} is right {percent(size)} points {word} often than the "
        "others"
    )


def failure(found: Measured, allowed: float | None) -> str:
    """Returns why a model fails, or an empty text if it does not.

    Args:
        found: the results.
        allowed: greatest excess that is allowed, as a fraction; None means any.
    """
    value = found.result.excess.value if found.result.verdict == SENSITIVE else None
    if allowed is None or value is None or value <= allowed:
        return ""
    return f"failed: the excess is {percent(value)} points, above {100 * allowed:g}"


def text(found: Measured, better: Better | None, title: str, limit: int) -> str:
    """Returns the printed report.

    Args:
        found: the results.
        better: better descriptions; None if they were not requested.
        title: first line of the report.
        limit: maximum number of descriptions.
    """
    shown = found.descriptions[:limit]
    head, *rows = _wordings(found)
    parts = [
        "\n".join([title, *_lines(found)]),
        columns.aligned([head, *rows], (False, *[True] * (len(head) - 1))),
        _forms(found),
    ]
    if shown:
        title = f"{len(shown)} of {len(found.descriptions)} descriptions"
        rows = [_HEADS, *map(_row, shown)]
        parts.append(f"{title}; {_named(found)}\n\n{columns.aligned(rows, _RIGHT)}")
    return "\n\n".join([*parts, *([] if better is None else [_better(better)])])


def _lines(found: Measured) -> Iterator[str]:
    """Yields the result, the excess, and the coverage."""
    one = found.result
    yield sentence(found)
    yield (
        f"excess {one.excess.points} points: disagreement between wordings "
        f"{percent(one.between)}, within a wording {percent(one.within)} (noise)"
    )
    kinds = [k for k in ("tools", "arguments", "inside arguments", *LENGTHS)
             if found.coverage.texts.get(k)]  # fmt: skip
    parts = ", ".join(f"{kind} {_share(found.coverage, kind)}" for kind in kinds)
    yield f"texts reworded: {_share(found.coverage, 'all')} ({parts})"
    for name, change in found.axes.items():
        yield (
            f"{name} ({AXES[name].meaning}; {_faithful(name)}): accuracy "
            f"{change.difference.points}, excess {change.excess.points} points "
            f"(p {_p(change.p)})"
        )


def _faithful(axis: str) -> str:
    return "faithful" if AXES[axis].is_faithful else "not faithful"


def _share(covered: Coverage, kind: str) -> str:
    return f"{covered.reworded.get(kind, 0):,} of {covered.texts.get(kind, 0):,}"


def _wordings(found: Measured) -> Iterator[tuple[str, ...]]:
    yield ("wording", "exact", "fuzzy (JGA)" if found.is_state else "fuzzy", "flips")
    for number, name in enumerate(found.wordings):
        cells = [percent(found.scores[kind][number].mean()) for kind in KINDS]
        flips = found.flips[number]
        name += f", {_faithful(name)}" if name in found.axes else ""
        yield (name, *cells, "" if flips is None else percent(flips))
    yield ("SS of the rewordings", *(percent(found.ss[kind]) for kind in KINDS), "")


def _forms(found: Measured) -> str:
    listed = ", ".join(f"{number:,} {form}" for form, number in found.forms.items())
    line = f"replies: {listed}"
    if found.forms.get(PROSE, 0) > found.forms.get(TOOL_CALLS, 0) + found.forms.get(
        TEXT, 0
    ):
        line += (
            ". Most call no tool, and count as such (a chat template without tools "
            "needs --tools_in_prompt)"
        )
    return line


def _named(found: Measured) -> str:
    number = sum(one.is_shown for one in found.descriptions)
    return f"{number or 'none'} shown to matter (*)"


def _row(one: Described) -> tuple[str, ...]:
    worst, best = one.worst, one.best
    numbers = (str(one.cases), *map(percent, (one.given, worst[1], best[1])))
    texts = [
        pair[0] if one.is_shown and pair[1] != one.given else ""
        for pair in (worst, best)
    ]
    p = "" if one.p is None else _p(one.p) + "*" * one.is_shown
    return (".".join(filter(None, (one.tool, one.argument))), *numbers, p, *texts)


def _better(better: Better) -> str:
    reasons = [f"{number} {reason}" for reason, number in better.refused.items()]
    refused = f" (refused: {', '.join(reasons)})" if reasons else ""
    wrote = ""
    if better.proposed is not None:
        wrote = f"{_number(better.proposed)} proposed{refused}; "
    if not better.texts:
        return f"no gain: {wrote}no text is shown to be better on half of the cases"
    told = (
        f"{wrote}{_number(len(better.texts))}, chosen on half of the cases; on the "
        f"other {better.cases}: {percent(better.given)} as given, "
        f"{percent(better.advised)} advised, difference {better.difference.points}"
    )
    return f"{'gain' if better.is_gain else 'no gain'}: {told}"


def _number(texts: int) -> str:
    return f"{texts} text{'' if texts == 1 else 's'}"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def as_json(
    found: Measured, better: Better | None, wordings: Wordings, about: dict[str, Any]
) -> dict[str, Any]:
    """Returns the report as JSON; shares are fractions.

    Args:
        found: the results.
        better: better descriptions; None if they were not requested.
        wordings: the cases under each wording.
        about: settings of the run, which are copied into the report.
    """
    cases, one = wordings[found.wordings[0]], found.result
    told: dict[str, Any] = {
        "about": about,
        "result": {name: getattr(one, name) for name in _OF_RESULT}
        | {
            "sentence": sentence(found),
            "excess": one.excess.value,
            "interval": [one.excess.low, one.excess.high],
            "cases_needed": one.needed,
        },
        "coverage": {
            kind: {"reworded": found.coverage.reworded[kind], "texts": number}
            for kind, number in found.coverage.texts.items()
        },
        "wordings": list(found.wordings),
        "flips": dict(zip(found.wordings, found.flips, strict=True)),
        "axes": {
            name: {
                "faithful": AXES[name].is_faithful,
                "difference": one.difference.value,
                "interval": [one.difference.low, one.difference.high],
                "excess": one.excess.value,
                "excess_interval": [one.excess.low, one.excess.high],
                "p": one.p,
            }
            for name, one in found.axes.items()
        },
    }
    for kind in KINDS:
        table = found.scores[kind].mean(axis=1)
        means = zip(found.wordings, table.mean(axis=1).tolist(), strict=True)
        rows = zip(cases, table.T.tolist(), strict=True)
        told[kind] = {
            "accuracy": dict(means),
            "ss": found.ss[kind],
            "cases": {case.id: row for case, row in rows},
        }
    told["replies"] = dict(found.forms)
    told["descriptions"] = [
        {name: getattr(one, name) for name in ("tool", "argument", "cases", "p")}
        | {"texts": [{"text": text, "right": share} for text, share in one.options]}
        for one in found.descriptions
    ]
    if better is not None:
        told["better"] = {
            "texts": [
                {"tool": tool, "argument": argument, "text": text}
                for (tool, argument), text in better.texts.items()
            ],
            **{name: getattr(better, name) for name in ("cases", "given", "advised")},
            "proposed": better.proposed,
            "refused": dict(better.refused),
            "interval": [better.difference.low, better.difference.high],
            "gain": better.is_gain,
        }
    return told


def junit(found: Measured, title: str, allowed: float | None) -> str:
    """Returns the result as a test suite of one test in JUnit XML.

    The test fails as `failure` says. It is skipped if there are too few cases or
    reworded texts.

    Args:
        found: the results.
        title: settings of the run.
        allowed: see `failure`.
    """
    failed = failure(found, allowed)
    skipped = not failed and found.result.verdict in (TOO_FEW, NOT_REWORDED)
    counts = {"failures": str(int(bool(failed))), "skipped": str(int(skipped))}
    counts |= {"name": "jaxaug sensitivity", "errors": "0", "tests": "1"}
    suite = ElementTree.Element("testsuite", counts)
    about = {"classname": "jaxaug.sensitivity", "name": "excess"}
    test = ElementTree.SubElement(suite, "testcase", about)
    if failed:
        ElementTree.SubElement(test, "failure", {"message": failed})
    if skipped:
        ElementTree.SubElement(test, "skipped", {"message": sentence(found)})
    lines = "\n".join([title, *_lines(found)])
    ElementTree.SubElement(test, "system-out").text = lines
    return ElementTree.tostring(suite, "unicode", xml_declaration=True) + "\n"


def html_page(found: Measured, better: Better | None, title: str) -> str:
    """Returns a self-contained HTML page: wordings, descriptions, and their texts."""
    head, *rows = _wordings(found)
    cells = map(_row, found.descriptions)
    lines = [title, *_lines(found), _forms(found)]
    lines += [] if better is None else [_better(better)]
    parts = [
        *page.paragraphs(lines),
        *page.table(head, rows),
        f"<h2>Descriptions: {_named(found)}</h2>",
        *page.table(_HEADS, cells, _RIGHT, sort=True),
        "<h2>Definitions</h2>",
        *page.items(_LEGEND),
        "<h2>Texts of each description</h2>",
        *(line for one in found.descriptions for line in _texts(one)),
    ]
    return page.whole("Sensitivity of tool calls", parts, sort=True)


def _texts(one: Described) -> list[str]:
    rows = [(text, percent(share)) for text, share in one.options]
    return page.details(_row(one)[0], page.table(("text", "right"), rows, sort=True))
