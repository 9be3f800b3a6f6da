"""`reverb_server --config=TEXTPROTO`: runs a server until it is interrupted."""

import argparse
import signal
import sys
from collections.abc import Sequence

from reverb import _borrowed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a server according to the arguments; returns 0 after Ctrl-C or SIGTERM, 2 for invalid arguments."""
    parser = argparse.ArgumentParser("reverb_server", description="Serves the tables of a configuration on Relive.")
    parser.add_argument("--config", required=True, help="a ReverbServerConfig in protobuf's text format")
    config_text = parser.parse_args(arguments).config
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
