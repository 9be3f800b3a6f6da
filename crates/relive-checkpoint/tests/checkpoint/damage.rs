//! Tests that damaged checkpoints are refused, wherever the damage is.

use std::fs;
use std::path::{Path, PathBuf};

use relive_checkpoint::{Error, ErrorKind, LoadOptions, Loaded};
use relive_table::Snapshot;

use crate::support::{Folder, TableContents, contents, fixtures, save_as_reverb, small};

const FILES: [&str; 3] = ["tables.tfrecord", "items.tfrecord", "chunks.tfrecord"];

/// Returns a checkpoint in every form, each in a folder that may be damaged.
fn victims() -> (Folder, Vec<PathBuf>) {
    let root = Folder::new();
    let mut victims: Vec<_> = ["current", "legacy", "uncompressed", "old_forms"]
        .map(|name| root.copy(&fixtures().join(name), name))
        .into();
    victims.push(save_as_reverb(&root.join("own"), &small()));
    (root, victims)
}

fn load(folder: &Path) -> Result<Vec<TableContents>, Error> {
    load_with(folder, &LoadOptions::new()).map(|loaded| contents(&loaded.snapshot))
}

fn load_with(folder: &Path, options: &LoadOptions) -> Result<Loaded, Error> {
    relive_checkpoint::load(folder.to_str().expect("our folders have plain names"), options)
}

/// Loads the checkpoint with each of the given contents in place of a file's own contents.
fn with_each(folder: &Path, file: &str, contents: impl IntoIterator<Item = (String, Vec<u8>)>) {
    let path = folder.join(file);
    let Ok(whole) = fs::read(&path) else { return };
    let expected = load(folder).expect("the checkpoint is whole");
    for (damage, content) in contents {
        fs::write(&path, content).expect("the folder can be written");
        match load(folder) {
            Ok(loaded) => assert!(loaded == expected, "{}: {damage} goes unnoticed", path.display()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{}: {damage}: {error}", path.display());
                let named =
                    error.to_string().contains(folder.to_str().expect("our folders have plain names"));
                assert!(named, "{damage}: {error}");
            }
        }
    }
    fs::write(&path, whole).expect("the folder can be written");
}

#[test]
fn every_flipped_bit_is_detected() {
    let (_root, victims) = victims();
    for folder in victims {
        for file in FILES {
            let whole = fs::read(folder.join(file)).unwrap_or_default();
            let flips = (0..whole.len() * 8).step_by(7).map(|bit| {
                let mut content = whole.clone();
                content[bit / 8] ^= 1 << (bit % 8);
                (format!("flipped bit {bit}"), content)
            });
            with_each(&folder, file, flips);
        }
    }
}

#[test]
fn every_truncation_is_detected() {
    let (_root, victims) = victims();
    for folder in victims {
        for file in FILES {
            let whole = fs::read(folder.join(file)).unwrap_or_default();
            let cuts = (0..whole.len()).map(|end| (format!("cut at {end}"), whole[..end].to_vec()));
            with_each(&folder, file, cuts);
        }
    }
}

#[test]
fn trailing_bytes_and_misplaced_files_are_detected() {
    let (_root, victims) = victims();
    for folder in victims {
        let files = FILES.map(|file| fs::read(folder.join(file)).unwrap_or_default());
        for (file, whole) in FILES.into_iter().zip(&files) {
            let longer = ("a byte too many".to_owned(), [whole.as_slice(), b"x"].concat());
            let twice = ("the content twice".to_owned(), [whole.as_slice(), whole].concat());
            let others = files.iter().filter(|other| *other != whole && !other.is_empty());
            let others = others.map(|other| ("another file".to_owned(), other.clone()));
            with_each(&folder, file, [longer, twice].into_iter().chain(others));
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let (_root, victims) = victims();
    for folder in victims {
        for file in ["tables.tfrecord", "items.tfrecord", "chunks.tfrecord", "DONE"] {
            let path = folder.join(file);
            let Ok(whole) = fs::read(&path) else { continue };
            fs::remove_file(&path).expect("the folder can be written");
            let error = load(&folder).map(drop).expect_err("a file is missing");
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            // If the file of items is missing, the tables show that there should be items.
            let named = error.to_string();
            assert!(named.contains(file) || named.contains("items"), "{named}");
            fs::write(&path, whole).expect("the folder can be written");
        }
    }
}

#[test]
fn an_error_names_file_record_and_offset() {
    let (_root, victims) = victims();
    let folder = victims.iter().find(|folder| folder.ends_with("uncompressed")).expect("it is one of them");
    let path = folder.join("items.tfrecord");
    let mut content = fs::read(&path).expect("the file is there");
    let first = u64::from_le_bytes(content[..8].try_into().expect("eight bytes"));
    let second = usize::try_from(first).expect("a small record") + 16;
    content[second + 20] ^= 1;
    fs::write(&path, &content).expect("the folder can be written");
    let error = load(folder).map(drop).expect_err("a bit was flipped");
    let expected = format!(
        "{}: record 1, at byte {second} of the content: its content has a wrong checksum",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn intact_items_are_salvaged_and_losses_are_counted() {
    let (_root, victims) = victims();
    let options = LoadOptions::new().salvage(true);
    for folder in victims {
        let whole = load_with(&folder, &LoadOptions::new()).expect("the checkpoint is whole").snapshot;
        let items =
            |snapshot: &Snapshot| snapshot.tables.iter().map(|table| table.items.len() as u64).sum::<u64>();
        for file in ["items.tfrecord", "chunks.tfrecord"] {
            let path = folder.join(file);
            let Ok(content) = fs::read(&path) else { continue };
            for end in (0..content.len()).step_by(7) {
                fs::write(&path, &content[..end]).expect("the folder can be written");
                let loaded = load_with(&folder, &options).expect("the tables are whole");
                let lost: u64 = loaded.losses.iter().map(|loss| loss.items).sum();
                assert_eq!(
                    items(&loaded.snapshot) + lost,
                    items(&whole),
                    "{file} cut at {end}: {:?}",
                    loaded.losses
                );
                for table in &loaded.snapshot.tables {
                    let counted = table.counters.inserts - table.counters.deletes;
                    assert_eq!(u64::try_from(counted).ok(), Some(table.items.len() as u64));
                }
                assert!(load(&folder).is_err() || loaded.losses.is_empty());
            }
            fs::write(&path, content).expect("the folder can be written");
        }
    }
}
