//! Tests servers that authenticate their clients.

use std::path::Path;

use rcgen::generate_simple_self_signed;

use crate::support::{Served, command, file, outcome};

const TABLE: &str = "[[table]]\nname = 'replay'\n";
const TOKENS: &str = "eye read token-of-the-eye-1\nboss admin token-of-the-boss\n";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the exit code and stderr of a command that presents a token.
fn with_token(token: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = command(args).env("RELIVE_TOKEN", token).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn commands_show_tokens_over_tls() {
    let certified = generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let cert = file(".pem", &certified.cert.pem());
    let key = file(".pem", &certified.signing_key.serialize_pem());
    let tokens = file(".tokens", TOKENS);
    let security = format!("[security]\ntls_cert = '{}'\ntls_key = '{}'\n", text(&cert), text(&key));
    let served = Served::start_with(".toml", &format!("{security}{TABLE}"), &["--token-file", text(&tokens)]);
    let reset = ["reset", &served.address, "replay", "--tls-ca", text(&cert)];
    assert_eq!(with_token("token-of-the-boss", &reset), (Some(0), String::new()));
    let (code, stderr) = with_token("token-of-the-eye-1", &reset);
    assert_eq!(code, Some(6), "{stderr}");
    assert!(
        stderr.contains("Reset requires the role admin, but the token \"eye\" has the role read"),
        "{stderr}"
    );
    let worker = ["rl", "worker", "--join", &served.address, "--timeout", "5"];
    let (code, stderr) = with_token("", &worker);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("TLS"), "{stderr}");
    let (code, stderr) = with_token("", &["info", &served.address, "--tls-ca", text(&cert)]);
    assert_eq!(code, Some(6), "{stderr}");
    assert!(stderr.contains("requires a token"), "{stderr}");
    let token = file(".token", "token-of-the-eye-1\n");
    let info = ["info", &served.address, "--tls-ca", text(&cert), "--token-file", text(&token)];
    let (code, stdout, stderr) = outcome(&info);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("replay"), "{stdout}");
}

#[test]
fn a_token_is_generated_with_its_line() {
    let (code, stdout, _) = outcome(&["token", "actors", "write"]);
    assert_eq!(code, Some(0));
    let lines: Vec<_> = stdout.lines().collect();
    let (token, line) =
        (lines[0].strip_prefix("token: ").unwrap(), lines[1].strip_prefix("line:  ").unwrap());
    assert_eq!(token.len(), 64);
    assert!(line.starts_with("actors write sha256:") && !line.contains(token), "{line}");
    let served = Served::start_with(".toml", TABLE, &["--token-file", text(&file(".tokens", line))]);
    let (code, stderr) = with_token(token, &["info", &served.address]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (code, _, stderr) = outcome(&["token", "actors", "root"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("the roles are read, write and admin"), "{stderr}");
}

#[test]
fn invalid_security_options_stop_startup() {
    let config = file(".toml", TABLE);
    let broken = file(".tokens", "eye read short\n");
    for (more, expected) in [
        (&["--token-file", text(&broken)][..], "the token must have 16 to 1024 characters, got 5"),
        (&["--tls-cert", "nowhere.pem"], "--tls-key"),
        (&["--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"], "nowhere.pem cannot be read"),
        (&["--tls-client-ca", "nowhere.pem"], "--tls-cert"),
        (&["--plaintext-role", "read"], "--plaintext"),
    ] {
        let args = [&["serve", "--port", "0", "--config", text(&config)], more].concat();
        let (code, _, stderr) = outcome(&args);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_token_file_without_a_token_is_refused() {
    let empty = file(".token", "\n");
    let (code, _, stderr) = outcome(&["info", "localhost:1", "--token-file", text(&empty)]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.ends_with(&format!("--token-file {}: it has no token\n", text(&empty))), "{stderr}");
}

#[test]
fn a_plaintext_address_is_served_besides_the_main_one() {
    let tokens = file(".tokens", TOKENS);
    let open = crate::support::free_address();
    let more = ["--token-file", text(&tokens), "--plaintext", &open, "--plaintext-role", "read"];
    let served = Served::start_with(".toml", TABLE, &more);
    assert_eq!(outcome(&["info", &open]).0, Some(0));
    assert_eq!(outcome(&["reset", &open, "replay"]).0, Some(6));
    assert_eq!(outcome(&["info", &served.address]).0, Some(6));
}

#[test]
fn options_combine_with_the_configuration() {
    let open = crate::support::free_address();
    let config = format!("{TABLE}\n[security]\nplaintext = {open:?}\n");
    let _served = Served::start_with(".toml", &config, &["--plaintext-role", "read"]);
    assert_eq!(outcome(&["info", &open]).0, Some(0));
    assert_eq!(outcome(&["reset", &open, "replay"]).0, Some(6));
}

#[test]
fn connections_beyond_the_limit_are_closed_and_accepted_later() {
    let served = Served::start_with(".toml", "[[table]]\nname = 't'\n", &["--max-connections", "1"]);
    let first = std::net::TcpStream::connect(&served.address).unwrap();
    let (code, _, error) = outcome(&["info", &served.address]);
    assert!(code == Some(3) && error.contains(&served.address), "{code:?}: {error}");
    drop(first);
    // The server takes a moment to notice the change.
    let let_in = |_: &usize| outcome(&["info", &served.address]).0 == Some(0);
    assert!((0..500).any(|attempt| let_in(&attempt)), "nobody comes in any more");
    let (code, _, error) = outcome(&["serve", "--config", "x.toml", "--max-connections", "0"]);
    assert!(code == Some(2) && error.contains("--max-connections"), "{code:?}: {error}");
    let (code, _, error) = outcome(&["serve", "--config", "x.toml", "--max-bytes-in-flight", "0"]);
    assert!(code == Some(2) && error.contains("--max-bytes-in-flight"), "{code:?}: {error}");
}
