"""Whether a pattern of a quantisation config names a module."""

import re
from collections.abc import Iterable
from fnmatch import translate

#: Wrappers that repackagings put before the layers, in any order.
_WRAPPERS = ("model.", "language_model.", "backbone.", "text_model.")
#: A regular expression may spell the wrappers out: it is tried behind each of these.
_PREFIXES = ("", "model.", "language_model.model.", "model.language_model.", "backbone.")


def bare(name: str) -> str:
    """A module name without the wrappers before it: ``layers.0.self_attn.q_proj``."""
    stripped = True
    while stripped:
        stripped = False
        for wrapper in _WRAPPERS:
            if name.startswith(wrapper):
                name, stripped = name[len(wrapper) :], True
    return name


class ModulePatterns:
    """A list of module patterns: whole names, parts of names, globs, or regular expressions after ``re:``.

    A name also stands for the modules below it, and a name without dots for that part of any name
    (``gate`` is ``mlp.gate``, never ``gate_proj``).
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._parts: list[str] = []
        globs: list[str] = []
        self._expressions: list[re.Pattern[str]] = []
        for pattern in patterns:
            if pattern.startswith("re:"):
                self._expressions.append(re.compile(pattern.removeprefix("re:")))
            elif any(character in pattern for character in "*?["):
                globs.append(bare(pattern))
            elif "." in bare(pattern):
                self._names.add(bare(pattern))
            else:
                self._parts.append(bare(pattern))
        expressions = [translate(glob) for glob in globs] + [translate(f"{glob}.*") for glob in globs]
        self._globs = re.compile("|".join(expressions)) if expressions else None

    def match(self, module: str) -> bool:
        """Whether one of the patterns names the module."""
        name = bare(module)
        if any(ancestor in self._names for ancestor in ancestors(name)):
            return True
        if self._globs is not None and self._globs.match(name):
            return True
        dotted = f".{name}."
        if any(f".{part}." in dotted for part in self._parts):
            return True
        return any(expression.match(prefix + name) for expression in self._expressions for prefix in _PREFIXES)


def ancestors(name: str) -> list[str]:
    """The name and every name above it, nearest first."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
