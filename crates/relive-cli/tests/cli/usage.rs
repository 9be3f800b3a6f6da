//! Tests valid and invalid command lines.

use crate::support::{command, outcome};

#[test]
fn help_and_version_are_written_to_stdout() {
    let (code, stdout, stderr) = outcome(&["--help"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for name in ["serve", "info", "bench", "reset"] {
        assert!(stdout.contains(name), "{stdout}");
    }
    let (code, stdout, _) = outcome(&["--version"]);
    assert_eq!((code, stdout), (Some(0), format!("relive {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn invalid_command_lines_are_reported_in_one_line() {
    for (args, expected) in [
        (&[][..], "no command given; see `relive --help`"),
        (
            &["serve"],
            "the following required arguments were not provided: --config <FILE>; see `relive serve --help`",
        ),
        (
            &["info", "localhost"],
            "cannot use the server address \"localhost\": the port is missing, as in localhost:8000",
        ),
        (
            &["info", "h:1", "--timeout", "0"],
            "invalid value '0' for '--timeout <SECONDS>': it must be a number of seconds above 0 and at most 604800; see \
             `relive info --help`",
        ),
        (
            &["info", "h:1", "--log-level", "inof"],
            "--log-level \"inof\" is not a valid log filter; use off, error, warn, info, debug, trace, or target=level pairs",
        ),
    ] {
        let (code, stdout, stderr) = outcome(args);
        assert_eq!((code, stdout.as_str()), (Some(2), ""));
        assert_eq!(stderr, format!("relive: error: {expected}\n"));
    }
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = command(&["--help"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr, "relive: error: cannot write the result: No space left on device (os error 28)\n");
}
