"""One module per trace format: the lines of a file to requests. Fields and units as each format's own documents say."""

from transforms.traces.formats.detect import FORMATS, TraceFormat, detect_format
from transforms.traces.formats.values import UnknownTraceError

__all__ = ["FORMATS", "TraceFormat", "UnknownTraceError", "detect_format"]
