"""Files that people bring: tables, what stands beside them, traces, catalogues. Read here, judged in transforms."""
