"""Shards that a cluster's actors import from this module."""

from __future__ import annotations

import os
import time

from relive import flow


class Node:
    """Repeatedly yields the ids of the Ray node and of the process in which it runs, with a running number."""

    def __init__(self, ends_after=None):
        self._ends_after = ends_after

    def __iter__(self):
        import ray

        where = ray.get_runtime_context().get_node_id(), os.getpid()
        number = 0
        while True:
            if number == self._ends_after:
                os.kill(os.getpid(), 9)
            yield where, number
            number += 1


class Counter(flow.ParallelIteratorWorker):
    """Counts in steps that a call changes. It notes each number in a file."""

    def __init__(self, step, notes=None):
        self.step, self._notes = step, notes
        super().__init__(self.numbers)

    def numbers(self):
        at = 0
        while True:
            at += self.step
            if self._notes is not None:
                with self._notes.open("a") as notes:
                    notes.write(".")
            yield at

    def set_step(self, step, *, plus=0):
        self.step = step + plus


class Weighted(flow.ParallelIteratorWorker):
    """Yields its weights, which it doubles when they are set."""

    def __init__(self):
        self.weights = None
        super().__init__(self.totals)

    def totals(self):
        while True:
            yield self.weights

    def set_weights(self, weights):
        self.weights = weights
        self.weights *= 2


def with_step(number):
    """Returns a number after the step of the counter that it comes from."""
    return flow.get_metrics().current_actor.step, number


def noted(notes):
    """Returns an iterator, and notes the process in which this happens."""
    with notes.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return iter((1, 2))


def doubled(number):
    return 2 * number


def half_of_even(number):
    if number % 2:
        raise ArithmeticError(f"{number} is odd")
    return number // 2


def one_then_waits(gate):
    """Yields 2 once a file exists."""
    yield 1
    while not gate.exists():
        time.sleep(0.01)
    yield 2


def contents(file):
    """Yields the content of a file again and again."""
    while True:
        yield file.read_text()


def function_at_two(number):
    return (lambda: number) if number == 2 else number
