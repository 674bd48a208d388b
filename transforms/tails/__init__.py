"""Tails: how much longer than its mean a turn takes because of what others do meanwhile (docs/tails.md).

``waits`` has how the wait behind other sessions' prefills varies, ``replica`` the percentiles of TTFT. Pure
functions of arrays with one entry a row. Judged by vLLM's own scheduler (``make bench BENCH_ARGS=judge``).
"""
