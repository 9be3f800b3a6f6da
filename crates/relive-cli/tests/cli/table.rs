//! Tests `relive table` against a running server.

use crate::support::{Served, file, outcome};

const TOML: &str = "[[table]]\nname = 'replay'\n[[table]]\nname = 'queue'\nkind = 'queue'\nmax_size = 10\n";

/// Returns the output of a command, which must succeed.
fn done(args: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(args);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}");
    stdout
}

#[test]
fn table_rules_are_set_and_reported() {
    let served = Served::start(".toml", TOML);
    let at = served.address.as_str();
    let output =
        done(&["table", "set", at, "replay", "--max-size", "50", "--max-bytes", "2MB", "--min-size", "7"]);
    let expected = "table replay: max_size was 1000000, is 50\n\
                    table replay: max_bytes was none, is 2000000\n\
                    table replay: min_size_to_sample was 1, is 7\n\
                    table replay: a sample needs 7 more items in the table (has 0, min_size_to_sample is 7)\n";
    assert_eq!(output, expected);
    let output = done(&["table", "set", at, "replay", "--max-bytes", "none", "--min-diff", "-5.5"]);
    assert!(output.starts_with("table replay: max_bytes was 2000000, is none\n"), "{output}");
    let report: serde_json::Value = serde_json::from_str(&done(&["info", at, "--json"])).unwrap();
    assert_eq!(report["tables"][1]["limiter"]["min_diff"], -5.5);
    let changes = report["server"]["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["new"]), (5, &"50".into()));
    assert!(done(&["info", at]).contains(": min_diff of replay was "));
}

#[test]
fn tables_are_paused_and_resumed() {
    let served = Served::start(".toml", TOML);
    let at = served.address.as_str();
    let output = done(&["table", "pause", at, "replay"]);
    assert!(output.starts_with("table replay: inserts was running, is paused\n"), "{output}");
    assert!(done(&["info", at]).contains("  paused: inserts and samples\n"));
    done(&["table", "resume", at, "replay", "--inserts"]);
    assert!(done(&["info", at]).contains("  paused: samples\n"));
    let output = done(&["table", "resume", at, "replay"]);
    assert!(output.starts_with("table replay: samples was paused, is running\n"), "{output}");
    assert_eq!(done(&["table", "resume", at, "queue"]).lines().next(), Some("table queue: nothing changed"));
}

#[test]
fn tables_are_added_and_dropped() {
    let served = Served::start(".toml", TOML);
    let at = served.address.as_str();
    let more = file(".toml", &format!("{TOML}[[table]]\nname = 'a'\n[[table]]\nname = 'b'\nmax_size = 5\n"));
    let more = more.to_str().unwrap();
    assert_eq!(
        done(&["table", "add", at, "--config", more, "b"]),
        "table b was added, with a max_size of 5 items\n"
    );
    let output = done(&["table", "add", at, "--config", more]);
    assert!(output.contains("table b already exists and was not changed\n"), "{output}");
    assert!(output.contains("table a was added, with a max_size of 1,000,000 items\n"), "{output}");
    assert_eq!(done(&["table", "drop", at, "replay"]), "table replay was dropped\n");
    let (code, stdout, stderr) = outcome(&["table", "drop", at, "replay"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("Priority table replay was not found; this server has: queue, b, a"), "{stderr}");
}

#[test]
fn invalid_table_commands_are_reported_in_one_line() {
    let served = Served::start(".toml", TOML);
    let at = served.address.as_str();
    for (args, code, expected) in [
        (vec!["table", "set", at, "replay"], 2, "no rule was given; give at least one"),
        (
            vec!["table", "set", at, "replay", "--max-size", "0"],
            1,
            "max_size of table \"replay\" must be from 1",
        ),
        (vec!["table", "set", at, "replay", "--max-bytes", "many"], 2, "is not a number of bytes"),
        (vec!["table", "pause", at, "replay", "--inserts", "--samples"], 2, "cannot be used with"),
        (vec!["table", "pause", at, "none"], 1, "Priority table none was not found"),
    ] {
        let (got, stdout, stderr) = outcome(&args);
        assert_eq!((got, stdout.as_str(), stderr.lines().count()), (Some(code), "", 1), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}
