"""Steps for the tests of patterns."""

from typing import Any, NamedTuple

import numpy as np
from google.protobuf import text_format

from relive import structured
from relive.cc import patterns_pb2
from relive.specs import ArraySpec

STEP = {"a": np.zeros(3, np.float32), "b": {"c": np.int32(0), "d": [1, 2]}}
SPEC = {
    "a": ArraySpec((3,), "float32"),
    "b": {"c": ArraySpec((), "int32"), "d": [ArraySpec((), "int64"), ArraySpec((4,), "int64")]},
}
REF = structured.create_reference_step(STEP)


class Pair(NamedTuple):
    second: Any
    first: Any


def one_line(message: Any) -> str:
    return text_format.MessageToString(message, as_one_line=True)


def parse(text: str) -> Any:
    return text_format.Parse(text, patterns_pb2.StructuredWriterConfig())
