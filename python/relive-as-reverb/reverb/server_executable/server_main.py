"""`reverb_server --config=TEXTPROTO`: runs a server until it is interrupted."""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from reverb import _borrowed

# Flags of absl's logging, which launch scripts pass to dm-reverb's program. Relive logs with Python's `logging`.
_IGNORED_SWITCHES = ("alsologtostderr", "logtostderr", "showprefixforinfo")
_IGNORED_FLAGS = ("log_dir", "logger_levels", "stderrthreshold", "v", "verbosity")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a server according to the arguments; returns 0 after Ctrl-C or SIGTERM, 2 for invalid arguments."""
    parser = _parser()
    config_text = _config_text(parser, sys.argv[1:] if arguments is None else arguments)
    # Imported only when needed, so that `--help` is fast, and not through `reverb`, which would load TensorFlow.
    import tempfile

    from google.protobuf import text_format
    from relive.checkpointers import DefaultCheckpointer
    from relive.server import Server
    from relive.server_executable import reverb_config_pb2, server_from_proto

    try:
        config = text_format.Parse(config_text, reverb_config_pb2.ReverbServerConfig())
    except text_format.ParseError as error:
        parser.error(f"--config is not a ReverbServerConfig in text format: {error}")
    # Shells start background processes with SIGINT ignored; a SIGINT should end the server nevertheless.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    checkpointer = DefaultCheckpointer(tempfile.mkdtemp(), format="reverb", keep=1)

    class Everywhere(Server):
        _usual_host = "*"

    server = Everywhere(server_from_proto.tables_from_proto(config.tables), config.port, checkpointer)
    try:
        # The reader of this line may send the signal immediately.
        print(f"serving {len(config.tables)} tables on port {server.port}", flush=True)
        server.wait()
    except KeyboardInterrupt:
        server.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    """Returns a parser of flags with one or two dashes, as in absl's programs."""
    parser = argparse.ArgumentParser(
        "reverb_server",
        description="Serves the tables of a configuration on Relive. Accepts and ignores the flags of absl's logging.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", "-config", required=True, help="a ReverbServerConfig in protobuf's text format")
    parser.add_argument("--flagfile", "-flagfile", metavar="FILE", help="a file with one flag per line")
    for name in _IGNORED_FLAGS:
        parser.add_argument(f"--{name}", f"-{name}", help=argparse.SUPPRESS)
    for name in _IGNORED_SWITCHES:
        for switch in (name, f"no{name}"):
            parser.add_argument(f"--{switch}", f"-{switch}", nargs="?", help=argparse.SUPPRESS)
    return parser


def _config_text(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> str:
    """Returns the configuration from the arguments. As in absl's programs, positional arguments have no effect."""
    try:
        flags, others = parser.parse_known_args(list(_with_flag_files(arguments)))
    except (OSError, UnicodeError) as error:
        parser.error(f"--flagfile cannot be read: {error}")
    unknown = [argument for argument in others if argument.startswith("-")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    config: str = flags.config
    return config


def _with_flag_files(arguments: Sequence[str], read: tuple[Path, ...] = ()) -> Iterator[str]:
    """Yields the arguments, with the lines of flag files in the places of ``--flagfile``; ``read`` are the files that
    contain the arguments."""
    rest = iter(arguments)
    for argument in rest:
        name, _, path = argument.partition("=")
        if name not in ("--flagfile", "-flagfile"):
            yield argument
            continue
        path = path or next(rest, "")
        if not path:
            # The parser reports the missing value.
            yield argument
            continue
        file = Path(path).expanduser()
        if file not in read:
            lines = file.read_text().splitlines()
            flags = [line.strip() for line in lines if line.strip() and not line.startswith(("#", "//"))]
            yield from _with_flag_files(flags, (*read, file))


def app_run_main() -> None:
    """Runs the server of the program's arguments, and ends the program."""
    sys.exit(main())


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    FLAGS="absl.flags:FLAGS",
    app="absl.app",
    flags="absl.flags",
    logging="absl.logging",
    reverb="reverb",
    server_from_proto="reverb.server_executable.server_from_proto",
    server_main_command_line_args="reverb.platform.default.server_main_command_line_args",
)

if __name__ == "__main__":
    sys.exit(main())
