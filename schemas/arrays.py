"""The kinds of NumPy arrays that the program works with."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: Figures, one entry a row or a turn.
Array: TypeAlias = npt.NDArray[np.float64]
#: Yes or no for each row.
Flags: TypeAlias = npt.NDArray[np.bool_]
#: Places of rows.
Indices: TypeAlias = npt.NDArray[np.intp]
