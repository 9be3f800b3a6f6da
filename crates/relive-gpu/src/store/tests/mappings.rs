//! The contents of a store, as other mappings of its memory see them.

use std::os::unix::fs::PermissionsExt;

use relive_tensor::DType;

use super::{insert, options, schema};
use crate::error::ErrorKind;
use crate::memory::Tier;
use crate::schema::{Column, Schema};
use crate::store::{Inserted, Reader, Removal, Store};

/// Defect 11: a view shows the requested row, and nothing else.
#[test]
fn views_show_the_written_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b.column");
    let mut with_file = options(Removal::Fifo);
    with_file.tiers.insert("b".into(), Tier::File(path.clone()));
    let stores = [
        Store::create(schema(), options(Removal::Fifo)).unwrap(),
        Store::create_private(schema(), options(Removal::Fifo)).unwrap(),
        Store::create(schema(), with_file.clone()).unwrap(),
    ];
    assert!(stores[1].descriptor().is_none());
    for store in &stores {
        let rows: Vec<Inserted> = (1..4).map(|byte| insert(store, byte, 1.0)).collect();
        let pinned = store.pin(&rows.iter().rev().map(|row| row.index).collect::<Vec<_>>()).unwrap();
        for (at, byte) in [(0, 3), (1, 2), (2, 1)] {
            assert_eq!(pinned.bytes(at, 0).unwrap(), [byte; 6]);
            assert_eq!(pinned.bytes(at, 1).unwrap(), [byte; 16]);
        }
        for (row, column) in [(3, 0), (0, 2)] {
            assert_eq!(pinned.bytes(row, column).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
    let error = Store::create(schema(), with_file).unwrap_err().to_string();
    assert!(error.contains("b.column") && error.contains("in use by process"), "{error}");
    drop(stores);
    assert!(!path.exists());
}

/// Returns the access rights of a file.
fn mode(file: &std::fs::File) -> u32 {
    file.metadata().unwrap().permissions().mode() & 0o777
}

/// Defect 24: an attaching process sees the same rows, or an error that shows both schemas. Processes of other users
/// have no access.
#[test]
fn attached_mappings_show_the_same_rows_and_other_schemas_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("relive-gpu-attach-{}", std::process::id());
    let mut options = options(Removal::Fifo);
    let path = directory.path().join("b.column");
    options.tiers.insert("b".into(), Tier::File(path.clone()));
    let store = Store::create_named(&name, schema(), options).unwrap();
    let row = insert(&store, 9, 1.0);
    for path in [path, std::path::Path::new("/dev/shm").join(&name)] {
        assert_eq!(mode(&std::fs::File::open(&path).unwrap()), 0o600, "{}", path.display());
    }
    let by_name = Reader::attach(&name, Some(&schema())).unwrap();
    let descriptor = store.descriptor().unwrap().try_clone_to_owned().unwrap();
    // A named segment is a file, which can be truncated; as a descriptor, only sealed memory is accepted.
    assert_eq!(Reader::attach_descriptor(descriptor, None).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let pinned = by_name.pin(&[row.index]).unwrap();
    assert_eq!(pinned.bytes(0, 0).unwrap(), [9; 6]);
    assert_eq!(pinned.bytes(0, 1).unwrap(), [9; 16]);
    assert_eq!(store.status(row.index).unwrap().pins, 1);
    let other = Schema::new(4, vec![Column::new("a", DType::Int8, &[3])]).unwrap();
    let error = Reader::attach(&name, Some(&other)).unwrap_err().to_string();
    assert!(
        error.contains("a uint8[3], b int64[]") && error.contains("expects 4 steps of (a int8[3])"),
        "{error}"
    );
    let third = Reader::attach(&name, None).unwrap();
    assert_eq!(Reader::attach(&name, None).unwrap_err().kind(), ErrorKind::Unavailable);
    drop(third);
    assert!(Reader::attach(&name, None).is_ok());
}

/// The file of a column may be in a folder where everybody can create files.
#[test]
fn a_column_in_a_file_of_another_user_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("relive-gpu-foreign-{}", std::process::id());
    let mut options = options(Removal::Fifo);
    let path = directory.path().join("b.column");
    options.tiers.insert("b".into(), Tier::File(path.clone()));
    let _store = Store::create_named(&name, schema(), options).unwrap();
    // Only root can give files away.
    if std::os::unix::fs::chown(&path, Some(rustix::process::geteuid().as_raw() + 1), None).is_ok() {
        let error = Reader::attach(&name, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("b.column belongs to another user"), "{error}");
    }
}

#[test]
fn anonymous_memory_is_attached_by_its_descriptor() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    let row = insert(&store, 7, 1.0);
    let descriptor = store.descriptor().unwrap().try_clone_to_owned().unwrap();
    assert_eq!(mode(&descriptor.try_clone().unwrap().into()), 0o600);
    let reader = Reader::attach_descriptor(descriptor, Some(&schema())).unwrap();
    assert_eq!(reader.pin(&[row.index]).unwrap().bytes(0, 0).unwrap(), [7; 6]);
    drop(store);
    let null = std::fs::File::open("/dev/null").unwrap();
    let error = Reader::attach_descriptor(null.into(), None).unwrap_err().to_string();
    assert!(error.contains("is not shared memory of a fixed size"), "{error}");
}
