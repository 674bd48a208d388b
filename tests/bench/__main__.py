"""Runs the benchmarks: all of them, or those named. `python -m tests.bench [NAME]…`"""

import importlib
import pkgutil
import sys
import time

import tests.bench


def main(names: list[str]) -> int:
    """Runs the modules ``bench_NAME``; 2 if a name is unknown."""
    modules = [module.name for module in pkgutil.iter_modules(tests.bench.__path__)]
    known = [name.removeprefix("bench_") for name in modules if name.startswith("bench_")]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"No benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        print(f"=== {name}", flush=True)
        start = time.perf_counter()
        importlib.import_module(f"tests.bench.bench_{name}").main()
        print(f"({time.perf_counter() - start:.0f} s)\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
