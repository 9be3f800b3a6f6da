//! Golden files: the current writer reproduces old files byte for byte.

use std::fs;
use std::path::{Path, PathBuf};

use super::block::HEAD_BYTES;
use super::walk::{self, END_BYTES, HEADER_BYTES};
use super::{BlockHead, Description, ItemColumns, Kind, decode_chunks, encode_chunks};
use crate::Catalog;
use crate::segment::{HEADER_BYTES as SEGMENT_HEADER_BYTES, SegmentId, header, record};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/own")
}

#[test]
fn a_checkpoint_file_matches_the_golden_bytes_apart_from_compression() {
    let bytes = fs::read(fixture().join("checkpoint-0000000001.relive")).unwrap();
    let (header, rest) = bytes.split_at(HEADER_BYTES);
    assert_eq!(header, walk::header());
    let (mut blocks, end) = rest.split_at(rest.len() - END_BYTES);
    let (mut number, mut last) = (0, 0);
    while !blocks.is_empty() {
        last = bytes.len() - END_BYTES - blocks.len();
        let (head, rest) = blocks.split_first_chunk::<HEAD_BYTES>().unwrap();
        let head = BlockHead::from_bytes(head).unwrap();
        let (stored, rest) = rest.split_at(head.stored_bytes as usize);
        head.check(stored).unwrap();
        let raw = head.decode(stored.to_vec()).unwrap();
        let again = match head.kind {
            Kind::Description => Description::decode(&raw).unwrap().encode(),
            Kind::Chunks => encode_chunks(&decode_chunks(&raw, head.count).unwrap()),
            Kind::Items => ItemColumns::decode(&raw, head.count).unwrap().encode(),
            Kind::Other(kind) => panic!("kind {kind}"),
        };
        assert!(again == raw, "block {number}");
        assert_eq!(head.number, number);
        number += 1;
        blocks = rest;
    }
    assert_eq!(end, walk::end(last as u64, number));
    assert_eq!(number, 6, "descriptions, chunks of two tables, items of two tables");
}

#[test]
fn a_segment_matches_the_golden_bytes() {
    let root = fixture();
    let loaded =
        Catalog::open(root.to_str().unwrap()).unwrap().load(&crate::LoadOptions::new()).unwrap().unwrap();
    let entry = fs::read_dir(root.join("segments")).unwrap().next().unwrap().unwrap();
    let name = entry.file_name().into_string().unwrap();
    let mut again = header(SegmentId::from_file_name(&format!("segments/{name}")).unwrap()).to_vec();
    assert_eq!(again.len(), SEGMENT_HEADER_BYTES);
    let mut met = Vec::new();
    for item in loaded.snapshot.tables.iter().flat_map(|table| &table.items) {
        for chunk in item.data.trajectory.chunks() {
            let address = std::sync::Arc::as_ptr(chunk);
            if !met.contains(&address) {
                met.push(address);
                record::put_head(chunk, &chunk.frame(), &mut again);
                again.extend_from_slice(&chunk.frame());
            }
        }
    }
    assert!(again == fs::read(entry.path()).unwrap());
}
