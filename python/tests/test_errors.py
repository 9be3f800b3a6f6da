"""The kinds of errors, and their base classes."""

import pickle

import pytest

from relive import errors

KINDS = {
    errors.DeadlineExceededError: TimeoutError,
    errors.InvalidArgumentError: ValueError,
    errors.NotFoundError: RuntimeError,
    errors.UnavailableError: RuntimeError,
    errors.CancelledError: RuntimeError,
    errors.ClosedError: RuntimeError,
    errors.FailedPreconditionError: RuntimeError,
    errors.DataLossError: RuntimeError,
    errors.ProtocolError: RuntimeError,
    errors.PermissionDeniedError: RuntimeError,
    errors.InternalError: RuntimeError,
    errors.ResourceExhaustedError: IndexError,
    errors.UnimplementedError: NotImplementedError,
}


@pytest.mark.parametrize(("kind", "builtin"), KINDS.items(), ids=lambda kind: kind.__name__)
def test_each_kind_is_caught_like_the_errors_of_dm_reverb(kind: type[Exception], builtin: type[Exception]) -> None:
    for wanted in (errors.ReverbError, builtin):
        with pytest.raises(wanted, match="what happened"):
            raise kind("what happened")


def test_every_kind_is_listed_here() -> None:
    declared = {value for value in vars(errors).values() if isinstance(value, type)}
    assert declared == {errors.ReverbError, *KINDS}


def test_the_error_of_an_unknown_table_matches_dm_reverb() -> None:
    assert issubclass(errors.NotFoundError, RuntimeError)
    assert issubclass(errors.NotFoundError, ValueError)


def test_a_deadline_error_is_not_a_runtime_error() -> None:
    # dm-reverb's users distinguish the two by the order of their except clauses.
    assert not issubclass(errors.DeadlineExceededError, RuntimeError)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_cross_processes(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(error) is kind
    assert str(error) == "what happened"
