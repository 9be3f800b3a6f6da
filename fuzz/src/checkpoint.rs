//! Checkpoints in Relive's own format, assembled from parts.
//!
//! Random bytes with wrong checksums would be refused before they are parsed, so the input contains only what the
//! checksums cover: parts, each preceded by its kind (1 byte), subject (1), number of entries and length (2 each,
//! little endian). They are assembled, by the byte tables of `docs/checkpoint-format.md`, into a checkpoint file and a
//! segment with correct checksums.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use relive_checkpoint::{Catalog, ErrorKind, LoadOptions, Loaded};
use relive_table::CheckpointProgress;

#[path = "trajectory.rs"]
mod trajectory;

/// A record in the segment.
pub const RECORD: u8 = 0;

/// The block of chunks that correctly describes all records before it; the part's own content is ignored. In blocks of
/// kind 2, which have the input's content, the checksums of records are almost never correct.
pub const TRUE_CHUNKS: u8 = 4;

/// Limit on the decoded items: thousands of items may share a chunk.
const MAX_DECODED_ITEMS: usize = 20;

/// The segment of the initial input, which its descriptions name.
const SEGMENT_ID: [u8; 16] = 0x97f6_b327_39b3_c1be_5967_e279_a24c_7178_u128.to_be_bytes();

/// Checks that parts become a checkpoint or an error, that loaded items can be decoded, and that all damage is
/// reported.
pub fn check(parts: &[u8]) -> bool {
    thread_local! {
        static ROOT: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    }
    ROOT.with(|root| {
        let root = root.get_or_init(|| tempfile::tempdir().expect("a place for files"));
        check_in(root.path(), parts)
    })
}

fn check_in(root: &Path, parts: &[u8]) -> bool {
    let (file, segment) = files(parts);
    let id: String = SEGMENT_ID.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::create_dir_all(root.join("segments")).expect("a folder");
    fs::write(root.join("segments").join(id + ".chunks"), segment).expect("a segment");
    fs::write(root.join("checkpoint-0000000001.relive"), file).expect("a checkpoint");
    let catalog = Catalog::open(root.to_str().expect("a plain name")).expect("a folder");
    let plain = load(&catalog, false);
    let salvaged = load(&catalog, true);
    match (&plain, &salvaged) {
        (Some(plain), Some(salvaged)) => assert_same(plain, salvaged),
        (Some(_), None) => panic!("what is whole cannot be salvaged"),
        (None, Some(salvaged)) => assert!(!salvaged.losses.is_empty(), "nothing tells why it is refused"),
        (None, None) => {}
    }
    salvaged.iter().for_each(decodes);
    look(&catalog, plain.is_some());
    plain.is_some()
}

fn load(catalog: &Catalog, salvage: bool) -> Option<Loaded> {
    match catalog.load(&LoadOptions::new().threads(1).salvage(salvage)) {
        Ok(loaded) => Some(loaded.expect("there is one")),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            assert!(error.file().is_some(), "{error}");
            None
        }
    }
}

fn assert_same(plain: &Loaded, salvaged: &Loaded) {
    assert!(plain.losses.is_empty() && salvaged.losses.is_empty(), "{:?}", salvaged.losses);
    let shape = |loaded: &Loaded| -> Vec<_> {
        loaded.snapshot.tables.iter().map(|table| (Arc::clone(&table.config), table.items.len())).collect()
    };
    assert_eq!(shape(plain), shape(salvaged));
}

/// Checks that items decode to their declared types and shapes.
fn decodes(loaded: &Loaded) {
    let items = loaded.snapshot.tables.iter().flat_map(|table| &table.items);
    items.take(MAX_DECODED_ITEMS).for_each(|item| trajectory::check(&item.data.trajectory));
}

/// Checks that verification and inspection do not report lost items if the checkpoint is intact. They may report damage
/// in parts that the checkpoint does not use.
fn look(catalog: &Catalog, is_whole: bool) {
    match catalog.verify(&CheckpointProgress::default()) {
        Ok(report) if is_whole => {
            assert!(report.losses.iter().all(|loss| loss.items == 0), "{:?}", report.losses);
        }
        Ok(_) => {}
        Err(error) => assert_eq!((error.kind(), is_whole), (ErrorKind::Damaged, false), "{error}"),
    }
    if let Err(error) = catalog.inspect(4) {
        assert_eq!((error.kind(), is_whole), (ErrorKind::Damaged, false), "{error}");
    }
    catalog.checkpoints().expect("a list, whatever is in the files");
}

/// Returns the checkpoint file and the segment.
fn files(mut parts: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut file = sealed([b"RLVCHKPT".as_slice(), &1_u32.to_le_bytes()].concat());
    let mut segment = sealed([b"RLVCHNKS".as_slice(), &1_u32.to_le_bytes(), &SEGMENT_ID].concat());
    let (mut blocks, mut last, mut records) = (0_u32, 0, Vec::new());
    while let Some((head, rest)) = parts.split_first_chunk::<6>() {
        let [kind, subject, count @ .., low, high] = *head;
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (content, rest) = rest.split_at(length);
        parts = rest;
        if kind == RECORD {
            records.push(Record::put(content, &mut segment));
            continue;
        }
        last = file.len() as u64;
        let count = u32::from(u16::from_le_bytes(count));
        match kind {
            TRUE_CHUNKS => {
                let count = u32::try_from(records.len()).expect("few");
                put_block(&mut file, 2, blocks, 0, count, &chunks(&records));
            }
            1..=3 => put_block(&mut file, kind.into(), blocks, subject.into(), count, content),
            other => put_block(&mut file, u32::from(other) | 1 << 31, blocks, subject.into(), count, content),
        }
        blocks += 1;
    }
    let end = [b"RLVCKEND".as_slice(), &last.to_le_bytes(), &blocks.to_le_bytes()].concat();
    file.extend(sealed(end));
    (file, segment)
}

/// The place of a record, as a checkpoint describes it.
struct Record {
    begin: u32,
    length: u32,
    crc: u32,
}

impl Record {
    fn put(content: &[u8], segment: &mut Vec<u8>) -> Self {
        let begin = u32::try_from(segment.len()).expect("an input is small");
        let (length, crc) = (u32::try_from(content.len()).expect("16 bits"), crc32c::crc32c(content));
        segment.extend(length.to_le_bytes());
        segment.extend(crc.to_le_bytes());
        segment.extend_from_slice(content);
        Self { begin, length, crc }
    }
}

/// Returns the content of a block of chunks.
fn chunks(records: &[Record]) -> Vec<u8> {
    let mut out = 1_u32.to_le_bytes().to_vec();
    out.extend(SEGMENT_ID);
    let mut before = 0_u32;
    let begins: Vec<u32> = records
        .iter()
        .map(|record| {
            record.begin.wrapping_sub(std::mem::replace(&mut before, record.begin + 8 + record.length))
        })
        .collect();
    let column = |of: fn(&Record) -> u32| records.iter().map(of).collect::<Vec<_>>();
    for numbers in [column(|_| 0), begins, column(|record| record.length), column(|record| record.crc)] {
        (0..4).for_each(|plane| out.extend(numbers.iter().map(|number| number.to_le_bytes()[plane])));
    }
    out
}

fn put_block(file: &mut Vec<u8>, kind: u32, number: u32, subject: u32, count: u32, content: &[u8]) {
    let length = u32::try_from(content.len()).expect("an input is small");
    let mut head = b"BLCK".to_vec();
    for value in [kind, number, subject, count, 0, length, length, crc32c::crc32c(content)] {
        head.extend(value.to_le_bytes());
    }
    file.extend(sealed(head));
    file.extend_from_slice(content);
}

/// Appends the checksum of all bytes.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}
