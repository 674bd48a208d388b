"""The glossary: words and symbols that every page, column and picture uses, each once.

``docs/glossary.md``, the end of a release's data dictionary and a page of the explorer are made from it.
"""

from html import escape
from typing import Final, NamedTuple


class Term(NamedTuple):
    """A word: its symbol in equations, its unit, and what it means."""

    word: str
    symbol: str
    unit: str
    meaning: str


TERMS: Final = (
    Term("turn", "", "", "One call of the model by a session: a prompt in, an answer out."),
    Term("task", "", "", "A whole session of an agent: N turns, each followed by a pause."),
    Term("session", "", "", "An agent at work on a task, in flight or pausing."),
    Term("turns", "N", "", "Mean turns of a task."),
    Term("think time", "Z", "s", "Mean pause after a turn: a tool runs, a person thinks."),
    Term("turn latency", "R", "s", "Time of a turn from the request to its last token: TTFT + TPOT * (OSL - 1)."),
    Term("activity fraction", "rho", "", "Share of its time that a session is in flight: R / (R + Z)."),
    Term("sessions", "C", "", "Sessions that a replica serves at once, pausing ones counted."),
    Term("in flight", "B", "", "Requests that are being served or queued: C * rho on average; b at one station."),
    Term("throughput", "X", "turns/s", "Turns per second: C / (R + Z). Tasks per second are X / N."),
    Term("cache hit rate", "h", "", "Chance that a turn finds its session's prefix cached; a miss prefills it anew."),
    Term("TTFT", "", "ms", "Time to first token: waiting and prefill."),
    Term("TPOT", "", "ms", "Time per output token after the first, a decode step as a request sees it."),
    Term("ISL, OSL", "", "tokens", "Input and output sequence length: tokens of the prompt, and generated tokens."),
    Term("context", "L(j)", "tokens", "Tokens that the model attends to at turn j; its mean over the turns is Lbar."),
    Term("first prompt", "L0", "tokens", "Context of turn 1; S of it may be shared by all sessions."),
    Term("new tokens", "dL", "tokens", "Tokens from outside in each later turn: a tool's result, a person's message."),
    Term("prefill", "", "", "The pass that reads a prompt, or what of it the cache lacks, and makes its KV."),
    Term("decode", "", "", "The steps that generate tokens, one a step for every request of the batch."),
    Term("KV", "kappa", "bytes/token", "Keys and values of a context, in GPU memory; kappa is what a token takes."),
    Term("KV wall", "", "", "The sessions at which memory is full: no curve of points goes on beyond it."),
    Term("replica", "", "", "The smallest unit that can be deployed: GPUs that serve one copy of the model."),
    Term("TP, PP, EP, DP", "", "GPUs", "Parallelism by tensor, pipeline, expert and (of attention) data."),
    Term("aggregated", "agg", "", "Every GPU of the replica prefills and decodes."),
    Term("disaggregated", "disagg", "", "Some workers of the replica prefill, others decode, and KV is handed over."),
    Term("station", "s", "", "What a request queues at: a DP rank, of a disaggregated replica a decode rank."),
    Term("configuration", "", "", "Mode, parallelism, workers, precisions and engine; its rows by load are a curve."),
    Term("serving point", "", "", "A row of a standard-serving table: one configuration at one load on one workload."),
    Term("agent point", "", "", "A serving point carried over to a scenario."),
    Term("scenario", "", "", "How sessions behave, whatever the hardware: N, Z, L0, dL, OSL, h and their spread."),
    Term("operating point", "", "", "A configuration at the sessions and GPUs that a scenario fixes."),
    Term("frontier", "", "", "Points that no feasible one of their group beats in turn latency and turns/s/GPU."),
    Term("roofline", "", "", "Times from peak rates of bandwidth and arithmetic, where no table is at hand."),
    Term("transfer", "", "", "Engine steps of a row, moved to the agent's workload."),
)  # fmt: skip


def glossary_table() -> str:
    """The terms as a table in Markdown."""
    head = "| word | symbol | unit | meaning |\n| --- | --- | --- | --- |\n"
    return head + "".join(f"| {' | '.join(term)} |\n" for term in TERMS)


def glossary_page() -> str:
    """``docs/glossary.md``."""
    return (
        "# Glossary\n\nWords and symbols of all pages, columns and pictures, made from `schemas/glossary.py`. "
        "The equations: [model](model.md).\n\n" + glossary_table()
    )


def glossary_html() -> str:
    """The terms as a page by itself, for the explorer."""
    rows = "".join(f"<tr><td>{'</td><td>'.join(map(escape, term))}</td></tr>\n" for term in TERMS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Glossary</title>\n'
        '<link rel="icon" href="data:,">\n<link rel="stylesheet" href="style.css">\n</head>\n<body>\n<main>\n'
        '<h1>Glossary</h1>\n<p><a href="index.html">Back to the explorer</a></p>\n<div class="scroll"><table>\n'
        "<thead><tr><th>word</th><th>symbol</th><th>unit</th><th>meaning</th></tr></thead>\n"
        f"<tbody>\n{rows}</tbody>\n</table></div>\n</main>\n</body>\n</html>\n"
    )
