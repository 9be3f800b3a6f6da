//! Tests `relive serve` with checkpoints.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use relive_client::blocking::Client;

use crate::checkpoint_support::{TOML, args, checkpoint, first, folder, log_of, start, stop, write};
use crate::support::{Served, command, file, outcome};

/// Returns the checkpoints of Relive's format, by name.
fn names(root: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.filter(|name| name.starts_with("checkpoint-")).collect();
    names.sort();
    names
}

/// Returns the exit code and the error of a server that does not start.
fn refusal(args: &[String]) -> (Option<i32>, String) {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let (code, stdout, stderr) = outcome(&args);
    assert_eq!(stdout, "");
    (code, stderr.lines().last().unwrap_or_default().to_owned())
}

fn size(served: &Served) -> u64 {
    let info = Client::connect(&served.address).unwrap().server_info().unwrap();
    info.table("replay").unwrap().current_size
}

#[test]
fn a_server_resumes_from_its_newest_checkpoint() {
    let root = folder("newest");
    checkpoint(&root, &[1.0], &[]);
    let served = start(TOML, &root, &["--checkpoint-keep", "1", "--no-checkpoint-at-shutdown"]);
    let client = write(&served, &[2.0, 3.0]);
    client.delete_items("replay", &[client.sample("replay", 1).unwrap()[0].info().key]).unwrap();
    let new = client.checkpoint().unwrap();
    assert_eq!(Path::new(&new).parent(), Some(root.as_path()));
    assert_eq!(names(&root), ["checkpoint-0000000002.relive"]);
    stop(served);
    let served = start(TOML, &root, &[]);
    assert_eq!(first(&served), 2.0);
    let info = Client::connect(&served.address).unwrap().server_info().unwrap();
    let table = info.table("replay").unwrap();
    assert_eq!((table.current_size, table.inserts, table.samples, table.deletes), (2, 3, 2, 1));
    stop(served);
}

#[test]
fn a_stopping_server_writes_a_checkpoint_and_keeps_three() {
    let root = folder("at-shutdown");
    for (count, expected) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        let served = start(TOML, &root, &[]);
        write(&served, &[count as f32]);
        assert_eq!(size(&served), count);
        stop(served);
        assert_eq!(names(&root).len(), expected);
    }
    let served = start(TOML, &root, &["--no-checkpoint-at-shutdown"]);
    write(&served, &[5.0]);
    stop(served);
    let served = start(TOML, &root, &[]);
    assert_eq!(size(&served), 4, "nobody asked for the fifth item to be kept");
}

#[test]
fn checkpoints_are_written_periodically() {
    let root = folder("every");
    let served = start(TOML, &root, &["--checkpoint-every", "1s"]);
    let client = write(&served, &[1.0]);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let status = client.checkpoint_status().unwrap();
        if let Some(saved) = status.last_saved.as_ref().and_then(|last| last.saved())
            && seen.last() != Some(&saved.location)
        {
            seen.push(saved.location.clone());
        }
    }
    assert!(seen.is_sorted(), "{seen:?}");
    stop(served);
}

#[test]
fn a_damaged_checkpoint_stops_startup_with_advice() {
    let root = folder("damaged");
    let old = checkpoint(&root, &[1.0, 2.0], &[]);
    let new = checkpoint(&root, &[3.0], &[]);
    let mut content = std::fs::read(&new).unwrap();
    let middle = content.len() - 60;
    content[middle] ^= 1;
    std::fs::write(&new, content).unwrap();
    let (code, error) = refusal(&args(TOML, &root, &[]));
    assert_eq!(code, Some(1));
    let begin = format!("relive: error: cannot load the newest checkpoint: {}, at byte ", new.display());
    assert!(error.starts_with(&begin), "{error}");
    let advice = format!(
        "; --salvage loads the intact part; --checkpoint {} loads an older one, which does not need that file",
        old.display()
    );
    assert!(error.ends_with(&advice), "{error}");
    let served = start(TOML, &root, &["--checkpoint", old.to_str().unwrap(), "--no-checkpoint-at-shutdown"]);
    assert_eq!(size(&served), 2);
    stop(served);
    let served = start(TOML, &root, &["--salvage", "--no-checkpoint-at-shutdown"]);
    let salvaged = size(&served);
    let log = log_of(served);
    assert!(salvaged <= 3, "{salvaged}");
    assert!(log.iter().any(|line| line.contains("WARN") && line.contains("lost: ")), "{log:?}");
}

#[test]
fn an_older_checkpoint_with_the_same_damaged_segment_is_not_recommended() {
    let root = folder("damaged-shared");
    checkpoint(&root, &[1.0], &[]);
    checkpoint(&root, &[2.0], &[]);
    for entry in std::fs::read_dir(root.join("segments")).unwrap() {
        let path = entry.unwrap().path();
        let mut content = std::fs::read(&path).unwrap();
        *content.last_mut().unwrap() ^= 1;
        std::fs::write(&path, content).unwrap();
    }
    std::fs::remove_file(root.join("checkpoint-0000000002.relive")).unwrap();
    let only = refusal(&args(TOML, &root, &[])).1;
    assert!(only.ends_with("; --salvage loads the intact part; there is no older one"), "{only}");
    std::fs::copy(root.join(names(&root)[0].clone()), root.join("checkpoint-0000000002.relive")).unwrap();
    let (code, error) = refusal(&args(TOML, &root, &[]));
    let advice = format!(
        "; --salvage loads the intact part; older ones also need that file: `relive checkpoint verify {}` shows which are intact",
        root.display()
    );
    assert!(code == Some(1) && error.ends_with(&advice), "{error}");
}

#[test]
fn an_unsalvageable_checkpoint_is_reported_with_alternatives() {
    let root = folder("cut");
    let old = checkpoint(&root, &[1.0], &[]);
    let new = checkpoint(&root, &[2.0], &[]);
    let content = std::fs::read(&new).unwrap();
    // The description is repeated at the end of a checkpoint, so most of the file must be missing.
    std::fs::write(&new, &content[..50]).unwrap();
    let (code, error) = refusal(&args(TOML, &root, &["--salvage"]));
    let older = format!(
        "; no part of it can be salvaged; --checkpoint {} loads an older one, which does not need that file",
        old.display()
    );
    assert!(code == Some(1) && error.ends_with(&older), "{error}");
    let chosen = ["--salvage", "--checkpoint", new.to_str().unwrap()];
    assert!(refusal(&args(TOML, &root, &chosen)).1.ends_with("; no part of it can be salvaged"));
    std::fs::remove_file(&old).unwrap();
    let (_, error) = refusal(&args(TOML, &root, &["--salvage"]));
    let none =
        format!("; there is no older one; to start with empty tables, move it out of {}", root.display());
    assert!(error.ends_with(&none), "{error}");
}

#[test]
fn too_short_checkpoint_intervals_are_refused() {
    let config = file(".toml", TOML);
    let fixed =
        ["serve", "--config", config.to_str().unwrap(), "--checkpoint-dir", "d", "--checkpoint-every"];
    for (every, expected) in [
        ("1ms", "relive: error: --checkpoint-every must be at least 1s, got 1ms\n"),
        ("0s", "relive: error: invalid value '0s' for '--checkpoint-every <TIME>': \"0s\" is not a time"),
    ] {
        let (code, _, stderr) = outcome(&[&fixed[..], &[every]].concat());
        assert!(code == Some(2) && stderr.starts_with(expected), "{stderr}");
    }
}

#[test]
fn a_server_reports_the_checkpoint_it_started_from() {
    let root = folder("began-with");
    let path = checkpoint(&root, &[1.0], &[]);
    let served = start(TOML, &root, &["--no-checkpoint-at-shutdown"]);
    let status = Client::connect(&served.address).unwrap().checkpoint_status().unwrap();
    assert_eq!((status.loaded.as_deref(), status.last), (path.to_str(), None));
    let (code, shown, _) = outcome(&["info", &served.address]);
    assert_eq!(code, Some(0));
    let expected = format!("no checkpoint yet since the server started from {}\n", path.display());
    assert!(shown.contains(&expected), "{shown}");
    stop(served);
}

#[test]
fn a_damaged_checkpoint_of_dm_reverb_is_refused_and_salvaged_as_well() {
    let root = folder("damaged-reverb");
    let path = checkpoint(&root, &[1.0, 2.0], &["--checkpoint-format", "reverb"]).join("items.tfrecord");
    let mut content = std::fs::read(&path).unwrap();
    content.truncate(20);
    std::fs::write(&path, content).unwrap();
    let (code, error) = refusal(&args(TOML, &root, &[]));
    assert_eq!(code, Some(1));
    for part in
        ["cannot load the newest checkpoint", path.to_str().unwrap(), "; --salvage loads the intact part"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
    let served = start(TOML, &root, &["--salvage"]);
    assert_eq!(size(&served), 0);
    let log = log_of(served);
    assert!(log.iter().any(|line| line.contains("2 items of table `replay`")), "{log:?}");
}

#[test]
fn a_newer_incomplete_checkpoint_of_dm_reverb_is_ignored_with_a_warning() {
    let root = folder("incomplete-reverb");
    let checkpoint = |value| checkpoint(&root, &[value], &["--checkpoint-format", "reverb"]);
    let warnings_of = |path: &Path, size_after: u64| {
        std::fs::remove_file(path.join("DONE")).unwrap();
        let served = start(TOML, &root, &["--no-checkpoint-at-shutdown"]);
        assert_eq!(size(&served), size_after);
        let log = log_of(served);
        let is_told = |line: &String| {
            line.contains("ignoring an incomplete checkpoint") && line.contains(path.to_str().unwrap())
        };
        log.iter().filter(|line| is_told(line)).count()
    };
    let (first, second) = (checkpoint(1.0), checkpoint(2.0));
    assert_eq!(warnings_of(&second, 1), 1);
    let third = checkpoint(3.0);
    assert_eq!(warnings_of(&first, 2), 0, "the third one is newer");
    assert_eq!(warnings_of(&third, 0), 1);
}

#[test]
fn a_checkpoint_of_other_tables_is_a_configuration_error() {
    let root = folder("other-tables");
    checkpoint(&root, &[1.0], &[]);
    let (code, error) = refusal(&args("[[table]]\nname = 'other'\n", &root, &[]));
    assert_eq!(code, Some(2));
    assert!(
        error.contains("a table `replay`, which is not configured; the configured tables are: other"),
        "{error}"
    );
    assert!(error.contains("--checkpoint-tables"), "{error}");
    let served = start("[[table]]\nname = 'other'\n", &root, &["--checkpoint-tables"]);
    let info = Client::connect(&served.address).unwrap().server_info().unwrap();
    let names: Vec<_> = info.tables.iter().map(|table| table.config.name.as_str()).collect();
    assert_eq!(names, ["other", "replay"]);
    let table = info.table("replay").unwrap();
    assert_eq!((table.config.max_size, table.current_size), (10, 1), "with the rules that it had");
    stop(served);
}

#[test]
fn checkpoint_rules_apply_unless_overridden() {
    let root = folder("rules");
    checkpoint(&root, &[1.0, 2.0, 3.0], &[]);
    let smaller = "[[table]]\nname = 'replay'\nsampler = 'lifo'\nmax_size = 2\n";
    for (whose, max_size, size, sampled) in [("checkpoint", 10, 3, 1.0), ("code", 2, 2, 3.0)] {
        let served = start(smaller, &root, &["--config-from", whose, "--no-checkpoint-at-shutdown"]);
        let info = Client::connect(&served.address).unwrap().server_info().unwrap();
        let table = info.table("replay").unwrap();
        assert_eq!((table.config.max_size, table.current_size, first(&served)), (max_size, size, sampled));
        let log = log_of(served);
        let warnings =
            log.iter().filter(|line| line.contains("WARN") && line.contains("max_size is 10")).count();
        assert_eq!(warnings, 1, "{log:?}");
    }
}

#[test]
fn without_a_folder_a_checkpoint_is_refused() {
    let served = Served::start(".toml", TOML);
    let error = Client::connect(&served.address).unwrap().checkpoint().unwrap_err();
    assert_eq!(error.kind(), relive_client::ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("no checkpointer is configured"), "{error}");
    let config = file(".toml", TOML);
    for flags in [
        &["--config-from", "code"][..],
        &["--checkpoint-every", "1m"],
        &["--checkpoint-keep", "2"],
        &["--salvage"],
    ] {
        let (code, _, stderr) = outcome(&[&["serve", "--config", config.to_str().unwrap()], flags].concat());
        assert_eq!(code, Some(2));
        let expected = format!("{} requires a folder for checkpoints; give --checkpoint-dir", flags[0]);
        assert_eq!(stderr, format!("relive: error: {expected}\n"));
    }
}

#[test]
fn configuration_keys_equal_command_line_flags() {
    let root = folder("keys");
    let keys = format!(
        "checkpoint_dir = '{}'\ncheckpoint_keep = 2\ncheckpoint_format = 'reverb'\ncheckpoint_at_shutdown = false\n",
        root.display()
    );
    let served = Served::start(".toml", &format!("{keys}{TOML}"));
    let client = write(&served, &[1.0]);
    for _ in 0..3 {
        assert!(Path::new(&client.checkpoint().unwrap()).join("DONE").exists());
    }
    stop(served);
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 2, "two checkpoints, and no file beside them");
}

#[test]
fn the_newest_checkpoint_is_loaded_whatever_its_format() {
    let root = folder("taken-over");
    let theirs = checkpoint(&root, &[1.0], &["--checkpoint-format", "reverb"]);
    let served = start(TOML, &root, &["--no-checkpoint-at-shutdown"]);
    assert_eq!(size(&served), 1);
    let client = write(&served, &[2.0]);
    let ours = client.checkpoint().unwrap();
    let log = log_of(served);
    assert!(
        log.iter().any(|line| line.contains(theirs.to_str().unwrap()) && line.contains("1 item")),
        "{log:?}"
    );
    assert!(
        log.iter()
            .any(|line| line.contains("those in dm-reverb's format remain until `relive checkpoint prune")),
        "{log:?}"
    );
    assert!(theirs.exists() && Path::new(&ours).exists());
    checkpoint(&root, &[3.0], &["--checkpoint-format", "reverb"]);
    let served = start(TOML, &root, &["--no-checkpoint-at-shutdown"]);
    assert_eq!(size(&served), 3, "dm-reverb's is the newest again");
}

#[test]
fn two_servers_cannot_share_a_checkpoint_folder() {
    for (format, who) in [("relive", "process "), ("reverb", "another process ")] {
        let root = folder(&format!("two-servers-{format}"));
        let served = start(TOML, &root, &["--checkpoint-format", format]);
        for other in ["relive", "reverb"] {
            let (code, error) = refusal(&args(TOML, &root, &["--checkpoint-format", other]));
            assert_eq!(code, Some(1), "{error}");
            assert!(error.starts_with(&format!("relive: error: {}: ", root.display())), "{error}");
            assert!(error.contains("writes its checkpoints here"), "{error}");
            assert!(error.ends_with("stop it, or use another folder"), "{error}");
            assert!(other == "reverb" || error.contains(who), "{error}");
        }
        write(&served, &[1.0]).checkpoint().unwrap();
        stop(served);
        let served = start(TOML, &root, &[]);
        assert_eq!(size(&served), 1, "the lock went with the server");
    }
}

/// The id of a user without special permissions.
const NOBODY: u32 = 65_534;

/// Returns a command that runs the program as a user whom file permissions restrict, because root may write anywhere.
fn as_nobody(root: &Path, args: &[String]) -> std::process::Command {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let own = command(&args);
    if std::fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).unwrap_or(1)
        != 0
    {
        return own;
    }
    // Other users may have no access to the folders of the build.
    let program = root.join("relive");
    std::fs::copy(env!("CARGO_BIN_EXE_relive"), &program).unwrap();
    let mut command = std::process::Command::new(program);
    command.args(args).uid(NOBODY).gid(NOBODY).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

#[test]
fn a_read_only_checkpoint_folder_is_loaded_and_writing_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let checkpoints = root.path().join("checkpoints");
    checkpoint(&checkpoints, &[1.0, 2.0], &[]);
    let config = root.path().join("replay.toml");
    std::fs::write(&config, TOML).unwrap();
    let open =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    for (path, mode) in [(root.path().to_owned(), 0o755), (config.clone(), 0o644)] {
        open(&path, mode);
    }
    for entry in std::fs::read_dir(&checkpoints).unwrap() {
        let path = entry.unwrap().path();
        open(&path, if path.is_dir() { 0o555 } else { 0o444 });
    }
    open(&checkpoints, 0o555);
    let fixed = ["serve", "--port", "0", "--config", config.to_str().unwrap()];
    let more = ["--checkpoint-dir", checkpoints.to_str().unwrap(), "--no-checkpoint-at-shutdown"];
    let args: Vec<_> = fixed.iter().chain(&more).map(ToString::to_string).collect();
    let served = Served::spawn(&mut as_nobody(root.path(), &args));
    assert_eq!(size(&served), 2);
    let error = Client::connect(&served.address).unwrap().checkpoint().unwrap_err().to_string();
    assert!(error.contains("relive.lock: Permission denied"), "{error}");
    let log = log_of(served);
    assert!(log.iter().any(|line| line.contains("WARN") && line.contains("but not saved")), "{log:?}");
    open(&checkpoints, 0o755);
}
