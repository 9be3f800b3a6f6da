//! Tests that messages of samples, which are read in place, give the same result as with a complete parser of the
//! format.

use crate::checks;
use crate::common::recorded;
use proptest::prelude::*;
use relive_wire::Message;
use relive_wire::reverb::sample_stream_response::SampleEntry;
use relive_wire::reverb::{InsertStreamRequest, PrioritizedItem, SampleInfo, SampleStreamResponse};
use relive_wire::sample::{Assembler, ReceivedSample};

/// Returns the items of a recorded stream as a server would send them, each in two entries.
fn handed_out(fixture: &str) -> Vec<SampleEntry> {
    let mut entries = Vec::new();
    for request in recorded::<InsertStreamRequest>(fixture) {
        let (first, rest) = request.chunks.split_at(request.chunks.len() / 2);
        for item in request.items {
            let info =
                Some(SampleInfo { item: Some(item), probability: 0.25, table_size: 7, rate_limited: true });
            entries.push(SampleEntry { info, data: first.to_vec(), end_of_sequence: false });
            entries.push(SampleEntry { info: None, data: rest.to_vec(), end_of_sequence: true });
        }
    }
    entries
}

fn read(entries: Vec<SampleEntry>) -> Result<Vec<ReceivedSample>, String> {
    let message = SampleStreamResponse { entries, ..Default::default() }.encode_to_vec();
    let mut samples = Vec::new();
    let read = Assembler::default().push(&message.into(), &mut samples);
    read.map(|()| samples).map_err(|error| error.to_string())
}

#[test]
fn recorded_items_are_read_completely() {
    for fixture in ["insert_dtypes.bin", "insert_strings.bin", "insert_legacy_delta.bin"] {
        let entries = handed_out(fixture);
        let samples = read(entries.clone()).unwrap();
        assert_eq!(samples.len() * 2, entries.len());
        for (sample, pair) in samples.iter().zip(entries.chunks(2)) {
            let item = pair[0].info.as_ref().unwrap().item.as_ref().unwrap();
            let info = sample.info();
            assert_eq!(
                (info.key, info.priority, sample.table()),
                (item.key, item.priority, item.table.as_str())
            );
            assert_eq!((info.probability, info.table_size, info.rate_limited), (0.25, 7, true));
            let sent = pair.iter().flat_map(|entry| &entry.data);
            assert!(sample.chunks().eq(sent.map(AsRef::as_ref)));
            let columns = &item.flat_trajectory.as_ref().unwrap().columns;
            assert_eq!(sample.num_columns(), columns.len());
        }
    }
}

#[test]
fn a_sample_split_across_messages_is_reassembled() {
    let entries = handed_out("insert_chunks_of_four.bin");
    let mut assembler = Assembler::default();
    let mut samples = Vec::new();
    for entry in entries.clone() {
        let is_first = entry.info.is_some();
        let message = SampleStreamResponse { entries: vec![entry], ..Default::default() }.encode_to_vec();
        assembler.push(&message.into(), &mut samples).unwrap();
        assert_eq!(assembler.is_mid_sample(), is_first);
    }
    let at_once = read(entries).unwrap();
    assert_eq!(samples.len(), at_once.len());
    for (one, other) in samples.iter().zip(&at_once) {
        assert_eq!(one.info(), other.info());
        assert!(one.chunks().eq(other.chunks()));
    }
}

#[test]
fn streams_that_break_the_protocol_are_refused() {
    let entries = handed_out("insert_dtypes.bin");
    let (first, rest) = (entries[0].clone(), entries[1].clone());
    assert!(read(vec![rest.clone()]).unwrap_err().contains("the first entry of a sample has no info"));
    assert!(read(vec![first.clone(), first.clone()]).unwrap_err().contains("starts inside another one"));

    let refused = |message: Vec<u8>| {
        Assembler::default().push(&message.into(), &mut Vec::new()).unwrap_err().to_string()
    };
    let whole =
        SampleStreamResponse { entries: vec![first.clone(), rest], ..Default::default() }.encode_to_vec();
    assert!(refused(whole[..whole.len() - 1].to_vec()).contains("ends inside a field"));
    assert!(refused(vec![1 << 3, 1]).contains("a different wire type"));

    // These items have a name that is not text, or a trajectory in two parts.
    let entry = |info: &[u8]| [&[1 << 3 | 2, u8::try_from(info.len()).unwrap()], info].concat();
    let item = |fields: &[u8]| entry(&entry(&entry(fields)));
    assert!(refused(item(&[2 << 3 | 2, 1, 0xff])).contains("not UTF-8 text"));
    let twice = [8 << 3 | 2, 2, 1 << 3 | 2, 0].repeat(2);
    assert!(refused(item(&twice)).contains("field 8 is split into several parts"));
    let named = PrioritizedItem { table: "tä".to_owned(), ..PrioritizedItem::default() };
    let info = Some(SampleInfo { item: Some(named), ..SampleInfo::default() });
    let sample = &read(vec![SampleEntry { info, data: vec![], end_of_sequence: true }]).unwrap()[0];
    assert_eq!((sample.table(), sample.num_columns()), ("tä", 0));
    assert!(sample.trajectory().unwrap_err().to_string().contains("no trajectory"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_reader_decodes_damaged_messages_alike(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<proptest::sample::Index>(),
        fixture in prop_oneof![Just("insert_chunks_of_four.bin"), Just("insert_partial_steps.bin")],
    ) {
        let entries = handed_out(fixture).into_iter().take(2).collect();
        let mut message = SampleStreamResponse { entries, ..Default::default() }.encode_to_vec();
        for (at, value) in flips {
            let at = at.index(message.len());
            message[at] ^= value;
        }
        message.truncate(cut.index(message.len()) + 1);
        checks::sample_response::check(&message);
    }
}
