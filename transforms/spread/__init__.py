"""How turns and tasks of a scenario spread about their means: quadrature nodes, and percentiles of rows from them.

Within one batch all requests share the engine's steps, so a row's turn latency is linear in a few figures of the
turn: ``R = base + per_token * new + per_flop * flops + tpot * (output - 1)`` (model.md 5.3); a task's time is a sum of
such turns and of pauses. ``work`` makes the figures' joint distribution once for a scenario and a model, ``forms``
reads off its percentiles for all rows at once.
"""
