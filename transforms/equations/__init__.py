"""The equations of the model, one topic a module, on floats, NumPy arrays or Polars expressions.

Sections are those of the article "From standard serving to agent serving: deriving the Pareto
curve" (Feiyue Zhai, 2026-04-17). Units stand in the names.
"""
