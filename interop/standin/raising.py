"""Tests of errors, which compare an error's class and text with dm-reverb's. They run on dm-reverb and on the
stand-in."""

from __future__ import annotations

import functools
import re

import pytest
import reverb
import tensorflow as tf

_IS_STANDIN = "relive-as-reverb" in str(reverb.__file__)


def raises(kind, text):
    """Turns a program into a test: it must raise an error of class ``kind`` with the text ``text``, in which … matches
    anything.

    dm-reverb's error must have exactly this class and text, which proves that the test is correct. The stand-in's error
    may have a subclass and a longer text. TensorFlow adds names of operations around texts.
    """

    def decorate(program):
        @functools.wraps(program)
        def test(*arguments, **named):
            with pytest.raises(kind) as raised:
                program(*arguments, **named)
            check(raised.value, kind, text)

        return test

    return decorate


def check(error, kind, text):
    """Compares an error; see ``raises``."""
    said = getattr(error, "message", None) or str(error)
    pattern = ".*".join(re.escape(part) for part in text.split("…"))
    if issubclass(kind, tf.errors.OpError):
        matches = re.search
    else:
        matches = re.match if _IS_STANDIN else re.fullmatch
        assert _IS_STANDIN or type(error) is kind
    assert matches(pattern, said, re.DOTALL), f"{said!r} is not {text!r}"
