//! Frames of the bulk path, as a client reads them.

use relive_wire::Message;
use relive_wire::bulk::{BatchView, FrameHeader, FrameKind, HEADER_BYTES, InfoLayout};
use relive_wire::v1::BatchHead;

/// Checks that a decoded header encodes to the same bytes, and that a batch with an accepted head lies within its data:
/// the information about each sample, and the rows of every column, which have exactly the column's bytes.
pub fn check(data: &[u8]) -> bool {
    let Some((bytes, rest)) = data.split_first_chunk::<HEADER_BYTES>() else { return false };
    let Ok(header) = FrameHeader::decode(bytes) else { return false };
    assert_eq!(header.encode(), *bytes);
    let Some((head, body)) = rest.split_at_checked(header.head_len()) else { return false };
    if header.kind != FrameKind::Batch || body.len() != header.body_len() {
        return false;
    }
    BatchHead::decode(head).is_ok_and(|head| is_whole(&head, body))
}

fn is_whole(head: &BatchHead, data: &[u8]) -> bool {
    let Ok(view) = BatchView::new(head) else { return false };
    if view.data_bytes != data.len() {
        return false;
    }
    let infos = InfoLayout::of(view.samples);
    assert_eq!(infos.read(data).count(), view.samples);
    let mut is_whole = true;
    for column in &view.columns {
        let bytes = data.get(column.data_at.clone()).expect("a column lies within the data").len();
        let Ok(rows) = column.rows_of_each(view.samples, data) else {
            is_whole = false;
            continue;
        };
        let row = column.layout.cell_bytes().expect("a type and a shape that were accepted");
        let rows = rows.unwrap_or_else(|| vec![column.layout.rows.unwrap_or(1); view.samples]);
        assert_eq!(rows.len(), view.samples);
        let all: u64 = rows.iter().map(|&rows| u64::from(rows)).sum();
        assert_eq!(all * row as u64, bytes as u64);
    }
    is_whole
}
