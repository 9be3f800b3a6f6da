"""``python -m relive …`` runs the program ``relive``, which is installed separately."""

from __future__ import annotations

import os
import shutil
import sys


def main() -> None:
    program = shutil.which("relive")
    if program is None:
        print(
            "the program relive is not part of this package, and there is none on PATH; build it in a checkout of Relive with\n"
            "  cargo install --locked --path crates/relive-cli\n"
            "Python itself starts servers with relive.Server, and inspects them with Client.server_info, status and items",
            file=sys.stderr,
        )
        sys.exit(2)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
