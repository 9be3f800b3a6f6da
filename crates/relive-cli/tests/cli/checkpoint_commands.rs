//! `relive checkpoint`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use serde_json::{Value, json};

use crate::checkpoint_support::{TOML, checkpoint, folder, start, stop, text, write};
use crate::support::{Served, command, free_address, outcome};

/// Writes three checkpoints: one in dm-reverb's format with one item, then two in Relive's format, with two and three
/// items.
fn three(name: &str) -> (PathBuf, [PathBuf; 3]) {
    let root = folder(name);
    let first = checkpoint(&root, &[1.0], &["--checkpoint-format", "reverb"]);
    let second = checkpoint(&root, &[2.0], &[]);
    let third = checkpoint(&root, &[3.0], &[]);
    (root, [first, second, third])
}

/// Returns the output of a command, which must succeed.
fn good(args: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(&[&["checkpoint"], args].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}");
    stdout
}

fn document(args: &[&str]) -> Value {
    serde_json::from_str(&good(&[args, &["--json"]].concat())).unwrap()
}

/// Returns the exit code and the error of a command, which must fail.
fn bad(args: &[&str]) -> (i32, String) {
    let (code, _, stderr) = outcome(&[&["checkpoint"], args].concat());
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    (code.unwrap(), stderr.trim_end().strip_prefix("relive: error: ").unwrap().to_owned())
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap()
}

/// Changes a byte in the middle of a file.
fn damage(path: &Path) {
    let mut content = std::fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x10;
    std::fs::write(path, content).unwrap();
}

#[test]
fn ls_lists_both_formats_by_time() {
    let (root, paths) = three("ls");
    let shown = good(&["ls", text(&root)]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("{}: 3 checkpoints", root.display()));
    assert!(lines[1].starts_with("  name ") && lines[1].ends_with("own bytes"), "{}", lines[1]);
    for ((line, path), items) in lines[2..].iter().zip(&paths).zip(1..) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[0], name(path));
        assert_eq!(cells[1], if items == 1 { "reverb" } else { "relive" });
        assert_eq!((cells[4], cells[5], cells[6]), ("UTC", "1", items.to_string().as_str()), "{line}");
    }
    std::fs::write(&paths[2], "damaged").unwrap();
    assert!(good(&["ls", text(&root)]).lines().last().unwrap().contains("damaged"));
    let listed = document(&["ls", text(&root)]);
    assert_eq!(listed["location"], json!(text(&root)));
    let second = &listed["checkpoints"][1];
    assert_eq!(second["location"], json!(text(&paths[1])));
    assert_eq!(
        (&second["items"], &second["num_tables"], &second["chunks"]),
        (&json!(2), &json!(1), &json!(2))
    );
    assert_eq!((&second["format"], &second["error"]), (&json!("relive"), &Value::Null));
    assert!(
        second["written_at_s"].as_f64().unwrap() > 1.7e9
            && second["own_bytes"].as_u64() < second["total_bytes"].as_u64()
    );
    assert!(listed["checkpoints"][2]["error"].as_str().unwrap().contains("truncated"), "{listed}");
}

#[test]
fn an_empty_folder_has_no_checkpoints() {
    let root = folder("empty");
    std::fs::create_dir_all(&root).unwrap();
    let empty = text(&root);
    assert_eq!(good(&["ls", empty]), format!("{empty}: 0 checkpoints\n"));
    for args in
        [&["verify", empty][..], &["inspect", empty], &["convert", empty, "elsewhere", "--format", "relive"]]
    {
        assert_eq!(bad(args), (2, format!("there is no checkpoint in {empty}")));
    }
    let nowhere = format!("{empty}/nowhere");
    for args in [
        &["ls", &nowhere][..],
        &["prune", &nowhere, "--keep", "1"],
        &["verify", &nowhere],
        &["inspect", &nowhere],
        &["convert", &nowhere, "elsewhere", "--format", "reverb"],
    ] {
        assert_eq!(bad(args), (2, format!("{nowhere} does not exist")));
    }
    assert_eq!(bad(&["ls", "ftp://host/folder"]).0, 2);
}

#[test]
fn verify_reads_one_or_all_and_names_damage() {
    let (root, paths) = three("verify");
    let shown = good(&["verify", text(&root)]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3);
    for ((line, path), items) in lines.iter().zip(&paths).zip(["1 item", "2 items", "3 items"]) {
        assert!(line.starts_with(&format!("{}: whole; {items}, ", path.display())), "{line}");
    }
    damage(&paths[0].join("chunks.tfrecord"));
    let (code, error) = bad(&["verify", text(&paths[0])]);
    assert_eq!((code, error), (1, format!("{} is damaged", paths[0].display())));
    damage(&paths[2]);
    let (code, error) = bad(&["verify", text(&root)]);
    assert_eq!((code, error), (1, format!("2 of 3 checkpoints in {} are damaged", root.display())));
    let (_, stdout, _) = outcome(&["checkpoint", "verify", text(&root), "--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let whole: Vec<_> = (0..3).map(|at| report["checkpoints"][at]["whole"].as_bool().unwrap()).collect();
    assert_eq!(whole, [false, true, false]);
    let loss = &report["checkpoints"][0]["losses"][0];
    assert_eq!(loss["file"], json!(text(&paths[0].join("chunks.tfrecord"))));
    assert!(!loss["reason"].as_str().unwrap().is_empty());
}

#[test]
fn inspect_shows_rules_counters_and_items() {
    let root = folder("inspect");
    let config = format!(
        "{TOML}max_times_sampled = 9\n[table.signature]\nreward = {{ shape = [], dtype = 'float32' }}\n\
         [[table]]\nname = 'other'\nkind = 'queue'\nmax_size = 7\nmax_bytes = '1MiB'\n"
    );
    let served = start(&config, &root, &["--no-checkpoint-at-shutdown"]);
    let client = Client::connect(&served.address).unwrap();
    for number in 0..7 {
        let step = Nest::List(vec![
            Nest::Leaf(Tensor::scalar(number as f32)),
            Nest::Leaf(Tensor::from_slice(&[0_u8; 12], [3, 4]).unwrap()),
        ]);
        client.insert(&step, &[("other", f64::from(number))]).unwrap();
    }
    let path = client.checkpoint().unwrap();
    stop(served);
    let shown = good(&["inspect", text(&root), "--items", "3"]);
    for part in [
        format!("{path}, in the format relive\n").as_str(),
        &format!("by relive {}: 2 tables, 7 items, ", env!("CARGO_PKG_VERSION")),
        "\n\nreplay: 0 of 10 items; 0 chunks of 0 B\n",
        "  sampled by Fifo, at most 9 times; removed by Fifo\n",
        "  signature: reward float[]\n",
        "\n\nother: 7 of 7 items, at most 1.00 MiB; 7 chunks of ",
        "  7 inserts, 0 samples, 0 deletes, 0 items sampled\n",
        "  limiter: 0 to 7, 1 sample per insert, sampling needs 1 item\n",
        ": priority 1, sampled 0 times, inserted 20",
        "B: float[1], uint8[1, 3, 4]\n",
        "\n    … 4 more items …\n",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert!(!shown.contains("priority 3,"), "{shown}");
    let shown = document(&["inspect", &path]);
    let other = &shown["tables"][1];
    assert_eq!(
        (&other["name"], &other["items"], &other["max_bytes"]),
        (&json!("other"), &json!(7), &json!(1_048_576))
    );
    let item = &other["sample"][0];
    assert_eq!(
        item["columns"],
        json!([{"dtype": "float", "shape": [1]}, {"dtype": "uint8", "shape": [1, 3, 4]}])
    );
    assert!(item["key"].as_str().unwrap().parse::<u64>().is_ok());
    assert_eq!(other["sample"].as_array().unwrap().len(), 4);
    assert_eq!(shown["tables"][0]["signature"], json!([{"path": "reward", "dtype": "float", "shape": []}]));
}

#[test]
fn convert_works_in_both_directions_and_servers_load_the_same_items() {
    let (root, paths) = three("convert");
    let [theirs, ours] = ["convert-theirs", "convert-ours"].map(folder);
    let actual = good(&["convert", text(&root), text(&theirs), "--format", "reverb"]);
    let omitted =
        "changed: table replay: the structure of the items, such as the names of columns, is omitted";
    let (changed, converted) = actual.split_once('\n').unwrap();
    assert!(changed.starts_with(omitted), "{actual}");
    assert!(
        converted.starts_with(&format!("converted {} to {}/20", paths[2].display(), theirs.display())),
        "{actual}"
    );
    assert!(
        actual.contains(": 3 items, 3 chunks, ") && actual.trim_end().ends_with(", read back and compared"),
        "{actual}"
    );
    let document = document(&["convert", text(&theirs), text(&ours), "--format", "relive"]);
    assert_eq!(
        (&document["items"], &document["format"], &document["losses"]),
        (&json!(3), &json!("relive"), &json!([]))
    );
    assert_eq!(document["to"], json!(format!("{}/checkpoint-0000000001.relive", ours.display())));
    let shown = |root: &Path| {
        let mut shown: Value =
            serde_json::from_str(&good(&["inspect", text(root), "--items", "9", "--json"])).unwrap();
        let mut tables = shown["tables"].take();
        tables[0]["chunk_bytes"] = Value::Null;
        for item in tables[0]["sample"].as_array_mut().unwrap() {
            item["chunk_bytes"] = Value::Null;
        }
        tables
    };
    assert_eq!(shown(&root), shown(&theirs));
    assert_eq!(shown(&root), shown(&ours));
    for (format, root) in [("reverb", &theirs), ("relive", &ours)] {
        let (code, error) = bad(&["convert", text(&paths[1]), text(root), "--format", format]);
        assert_eq!(code, 2);
        let begin = format!("{} already has checkpoints, such as ", root.display());
        assert!(error.starts_with(&begin) && error.ends_with("; give a new folder"), "{error}");
    }
}

#[test]
fn convert_reports_unsupported_settings_and_lost_items() {
    let root = folder("convert-changed");
    let config =
        format!("{}sampler = 'without_replacement'\nmax_bytes = 1000\n", "[[table]]\nname = 'replay'\n");
    let served = start(&config, &root, &[]);
    write(&served, &[1.0, 2.0]);
    stop(served);
    let to = folder("convert-changed-to");
    let actual = good(&["convert", text(&root), text(&to), "--format", "reverb"]);
    for part in [
        "changed: table replay: the sampler without_replacement is saved as uniform",
        "changed: table replay: max_bytes is omitted",
    ] {
        assert!(actual.contains(part), "{actual}");
    }
    let theirs = checkpoint(&folder("convert-damaged"), &[1.0, 2.0], &["--checkpoint-format", "reverb"]);
    damage(&theirs.join("chunks.tfrecord"));
    let to = folder("convert-damaged-to");
    let (code, error) = bad(&["convert", text(&theirs), text(&to), "--format", "relive"]);
    assert!(code == 1 && error.contains("chunks.tfrecord"), "{code} {error}");
    let ours = folder("convert-damaged-ours");
    checkpoint(&ours, &[1.0, 2.0], &[]);
    let segment = std::fs::read_dir(ours.join("segments")).unwrap().next().unwrap().unwrap().path();
    let mut content = std::fs::read(&segment).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::write(&segment, content).unwrap();
    let to = folder("convert-damaged-to");
    let actual = good(&["convert", text(&ours), text(&to), "--format", "reverb", "--salvage"]);
    let begin = format!("lost: 1 item of table `replay` in total\nlost: {}, at byte ", segment.display());
    assert!(actual.starts_with(&begin) && actual.contains(": 1 item of 2, 1 chunk, "), "{actual}");
}

#[test]
fn a_conversion_that_salvages_nothing_fails() {
    let theirs = checkpoint(&folder("convert-lost"), &[1.0, 2.0], &["--checkpoint-format", "reverb"]);
    let items = theirs.join("items.tfrecord");
    let content = std::fs::read(&items).unwrap();
    std::fs::write(&items, &content[..20]).unwrap();
    let to = folder("convert-lost-to");
    let (code, error) = bad(&["convert", text(&theirs), text(&to), "--format", "relive", "--salvage"]);
    let begin = format!(
        "{}: nothing can be salvaged, all 2 items are lost; no checkpoint was written; ",
        theirs.display()
    );
    assert!(code == 1 && error.starts_with(&begin) && error.contains(text(&items)), "{error}");
    assert!(!to.exists());
}

#[test]
fn folder_commands_name_the_folder_of_a_single_checkpoint() {
    let root = folder("ls-one");
    let path = checkpoint(&root, &[1.0], &[]);
    let (code, error) = bad(&["ls", text(&path)]);
    let expected = format!(
        "{} is a single checkpoint, but ls lists all checkpoints of a folder; give {}",
        path.display(),
        root.display()
    );
    assert_eq!((code, error), (2, expected));
}

#[test]
fn prune_keeps_the_newest_and_removes_unreferenced_segments() {
    let (root, paths) = three("prune");
    let document = document(&["prune", text(&root), "--keep", "2"]);
    assert_eq!(document["removed"], json!([text(&paths[0])]));
    assert_eq!(document["bytes"].as_u64().map(|bytes| bytes > 0), Some(true));
    let actual = good(&["prune", text(&root), "--keep", "1"]);
    assert!(
        actual.starts_with(&format!(
            "removed {}\n{}: 1 checkpoint removed, ",
            paths[1].display(),
            root.display()
        )),
        "{actual}"
    );
    assert!(paths[2].exists() && !paths[0].exists() && !paths[1].exists());
    good(&["verify", text(&root)]);
    let (code, error) = bad(&["prune", text(&root), "--keep", "0"]);
    assert!(code == 2 && error.starts_with("invalid value '0' for '--keep <N>'"), "{error}");
    let served = start(TOML, &root, &[]);
    let (code, error) = bad(&["prune", text(&root), "--keep", "1"]);
    assert!(code == 1 && error.contains("writes its checkpoints here"), "{error}");
    stop(served);
}

#[test]
fn prune_keeps_the_layout_of_dm_reverb() {
    let root = folder("prune-reverb");
    for value in [1.0, 2.0, 3.0] {
        checkpoint(&root, &[value], &["--checkpoint-format", "reverb"]);
    }
    good(&["prune", text(&root), "--keep", "1"]);
    let names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn save_requests_a_checkpoint_and_reports_its_path() {
    let root = folder("save");
    let served = start(TOML, &root, &[]);
    write(&served, &[1.0, 2.0]);
    let actual = good(&["save", &served.address]);
    let path = format!("{}/checkpoint-0000000001.relive", root.display());
    assert!(actual.starts_with(&format!("{path}\n")) && actual.contains(" written in "), "{actual}");
    assert!(Path::new(&path).exists());
    let document = document(&["save", &served.address]);
    assert_eq!(document["location"], json!(format!("{}/checkpoint-0000000002.relive", root.display())));
    assert!(document["written_bytes"].as_u64() < document["total_bytes"].as_u64(), "{document}");
    assert!(document["took_s"].as_f64() >= document["longest_pause_s"].as_f64(), "{document}");
    stop(served);
}

#[test]
fn save_reports_why_there_is_no_checkpoint() {
    let served = Served::start(".toml", TOML);
    let (code, error) = bad(&["save", &served.address]);
    assert!(code == 1 && error.contains("no checkpointer is configured"), "{error}");
    let address = free_address();
    let (code, error) = bad(&["save", &address]);
    assert!(code == 3 && error.starts_with(&format!("cannot connect to {address}")), "{error}");
    let root = folder("save-failed");
    let served = start(TOML, &root, &["--no-checkpoint-at-shutdown"]);
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::write(&root, "a file where the folder was").unwrap();
    write(&served, &[1.0]);
    let (code, error) = bad(&["save", &served.address]);
    assert!(code == 1 && error.contains("checkpoint was not written"), "{code} {error}");
}

#[test]
fn results_end_quietly_when_the_reader_closes() {
    let (root, _) = three("closed");
    for what in ["ls", "verify", "inspect"] {
        let mut child = command(&["checkpoint", what, text(&root)]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{what}");
    }
}

#[test]
fn invalid_checkpoint_commands_are_reported() {
    let (code, error) = bad(&["convert", "a", "b", "--format", "zip"]);
    assert!(code == 2 && error.contains("[possible values: relive, reverb]"), "{error}");
    let (code, error) = bad(&["prune", "a"]);
    assert!(code == 2 && error.contains("--keep <N>"), "{error}");
    let (code, error) = bad(&["lst", "a"]);
    assert!(code == 2 && error.contains("'ls'"), "{error}");
}
