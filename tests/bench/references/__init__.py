"""The mapping's equations, written three times: what the mapping is measured against.

All compute every figure that the mapping publishes of a row at a scenario (``figures.COMPARED``): turn figures and
throughput at the scenario's hit rate, where all turns hit and where all miss; the closed loop; seven percentiles from
the scenario's nodes; sessions that the memory holds at three contexts; whether and why not the row can be run;
evidence; cost. Of aggregated rows of one dense model whose KV is linear in the context, with the default options: rows
that are carried by their engine steps, as those of AIConfigurator are, or by ratio. Choosing rows and what needs a
whole curve (points at the KV wall, the limit's name) is the mapping's alone, and so is taking steps apart: the
references are given what that finds.

- ``fused.FusedPass``: NumPy, a block of rows at a time that stays in the processor's cache, in place; what no scenario
  changes is worked out once for all of them. The machine's limit for arithmetic on arrays.
- ``plain.InPandas``: columns of a frame, as one would write it.
- ``plain.OneByOne``: one row, floats.
"""
