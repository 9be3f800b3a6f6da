"""CartPole actors write n-step trajectories to a Relive server; a learner reads them back in batches.

    cargo xtask demo

or, where the Python package is installed,

    python demo/cartpole.py --seconds 30
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import pathlib
import signal
import sys
import tempfile
import time

import relive
from workers import TABLE, Counters, act, learn

# Starting Python and Gymnasium a few times over, on a busy machine.
START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 20.0


class WorkerError(Exception):
    """An actor or the learner ended before its time."""


class Workers:
    """The actors and the learner: processes that count what they do in shared memory."""

    def __init__(self, address: str, actors: int, log: pathlib.Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._log = log
        self._ready = context.Semaphore(0)
        self._go = context.Event()
        self.counters = [Counters(context) for _ in range(actors + 1)]
        roles = [("actor", act)] * actors + [("learner", learn)]
        self._processes = {}
        for number, ((role, work), counters) in enumerate(zip(roles, self.counters)):
            arguments = (address, number, counters, self._ready, self._go, self._stop, str(log))
            self._processes[f"{role} {number}"] = context.Process(target=work, args=arguments)

    def start(self) -> None:
        """Returns once all of them are ready, so that the time measured is spent on work."""
        for process in self._processes.values():
            process.start()
        deadline = time.monotonic() + START_PATIENCE_S
        for _ in self._processes:
            while not self._ready.acquire(timeout=0.2):
                self.check()
                if time.monotonic() > deadline:
                    raise WorkerError(f"the workers were not ready within {START_PATIENCE_S:.0f} s{self._report()}")
        self._go.set()

    def check(self) -> None:
        """Raises when one of them has ended."""
        for name, process in self._processes.items():
            if process.exitcode not in (None, 0):
                raise WorkerError(f"the {name} ended with {process.exitcode}{self._report()}")

    def finish(self) -> None:
        """Lets all of them end what they are doing."""
        self._stop.set()
        for name, process in self._processes.items():
            process.join(STOP_PATIENCE_S)
            if process.exitcode is None:
                raise WorkerError(f"the {name} did not end within {STOP_PATIENCE_S:.0f} s{self._report()}")
        self.check()

    def kill(self) -> None:
        """Leaves none behind."""
        for process in self._processes.values():
            if process.pid is not None and process.exitcode is None:
                process.kill()
                process.join()

    def _report(self) -> str:
        written = self._log.read_text(errors="replace").strip() if self._log.exists() else ""
        return f":\n{written[-3000:]}" if written else ""

    def total(self) -> dict[str, int]:
        totals = [counters.snapshot() for counters in self.counters]
        return {name: sum(total[name] for total in totals) for name in totals[0]}


def show_progress(workers: Workers, seconds: int) -> float:
    """A bar over the time of the run with what happens in it. Returns the seconds that it really took."""
    from tqdm import tqdm

    start = time.monotonic()
    layout = "{percentage:3.0f}% |{bar:24}| {n:.0f}/{total:.0f} s{postfix}"
    with tqdm(total=seconds, bar_format=layout, mininterval=0.0) as bar:
        before, then = workers.total(), start
        while (elapsed := time.monotonic() - start) < seconds:
            time.sleep(min(0.5, seconds - elapsed))
            workers.check()
            now, total = time.monotonic(), workers.total()
            rate = {name: (total[name] - before[name]) / (now - then) for name in total}
            bar.set_postfix_str(
                f" {total['episodes']:,} episodes, {rate['items']:,.0f} inserts/s, {rate['samples']:,.0f} samples/s",
                refresh=False)
            bar.update(min(now - start, seconds) - bar.n)
            before, then = total, now
    return time.monotonic() - start


def summary(total: dict[str, int], seconds: float) -> str:
    lines = [
        ("episodes played", f"{total['episodes']:,}", f"{total['steps']:,} steps"),
        ("items inserted", f"{total['items']:,}", f"{total['items'] / seconds:,.0f} /s"),
        ("items sampled", f"{total['samples']:,}", f"{total['samples'] / seconds:,.0f} /s"),
        ("batches", f"{total['batches']:,}", "each checked against CartPole's equations of motion"),
        ("written", f"{total['bytes_written'] / 1e6:,.1f} MB", f"{total['bytes_written'] / 1e6 / seconds:,.1f} MB/s"),
        ("read back", f"{total['bytes_read'] / 1e6:,.1f} MB", f"{total['bytes_read'] / 1e6 / seconds:,.1f} MB/s"),
        ("in the table", f"{total['table_size']:,}", "items at the end"),
    ]
    return "\n".join(f"{name:<16} {value:>12}   {note}" for name, value, note in lines)


def replay_table() -> relive.Table:
    """Uniform replay that begins once there are a thousand trajectories."""
    return relive.Table(
        name=TABLE,
        sampler=relive.selectors.Uniform(),
        remover=relive.selectors.Fifo(),
        max_size=100_000,
        rate_limiter=relive.rate_limiters.MinSize(1_000),
    )


def run(options: argparse.Namespace) -> None:
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relive-demo-")))
        server = stack.enter_context(relive.Server(tables=[replay_table()]))
        address = f"localhost:{server.port}"
        print(f"server at {address}; starting {options.actors} actors and a learner", flush=True)
        workers = Workers(address, options.actors, folder / "workers.log")
        stack.callback(workers.kill)
        workers.start()
        seconds = show_progress(workers, options.seconds)
        workers.finish()
        print(f"\n{summary(workers.total(), seconds)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30, help="how long the actors play")
    parser.add_argument("--actors", type=int, default=2, help="how many processes play")
    options = parser.parse_args()
    if options.seconds < 1 or options.actors < 1:
        parser.error("--seconds and --actors must be at least 1")
    # To be ended is to be interrupted: the server and the workers are stopped either way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(options)
    except WorkerError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
