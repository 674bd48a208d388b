"""One module per file format: what a file's bytes say, as rows of one common shape.

A format module offers ``NAME``, ``recognises(file)`` and ``read(file)``; ``formats.py`` lists them.
"""
