//! Messages of gRPC streams that arrive in parts.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use relive_wire::Message;
use relive_wire::framing::{Deframer, FramingError, framed};
use relive_wire::reverb::SampleStreamRequest;

fn header(flag: u8, length: u32) -> Vec<u8> {
    [&[flag][..], &length.to_be_bytes()].concat()
}

/// Takes all messages of a stream that arrives in parts that end at `cuts`.
fn taken(stream: &[u8], cuts: &[usize], peek: bool) -> Vec<Bytes> {
    let mut deframer = Deframer::new(1 << 20, 16);
    let mut messages = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([stream.len()]);
    let mut begin = 0;
    for end in ends {
        deframer.push(Bytes::copy_from_slice(&stream[begin..end]));
        begin = end;
        loop {
            let expected =
                if peek { deframer.next_message_bytes().expect("no message is refused") } else { None };
            let Some(message) = deframer.take_message().expect("no message is refused") else { break };
            if peek {
                assert_eq!(expected, Some(message.len() + 5));
            }
            messages.push(message);
        }
    }
    assert_eq!(deframer.held_bytes(), 0);
    messages
}

proptest! {
    #[test]
    fn messages_do_not_depend_on_the_parts(
        messages in vec(vec(any::<u8>(), 0..40), 0..8), cuts in vec(any::<usize>(), 0..12), peek in any::<bool>(),
    ) {
        let mut stream = Vec::new();
        for message in &messages {
            stream.extend(header(0, u32::try_from(message.len()).unwrap()));
            stream.extend(message);
        }
        prop_assert_eq!(taken(&stream, &cuts, peek), messages);
    }
}

#[test]
fn a_message_in_one_part_is_not_copied() {
    let stream = Bytes::from([header(0, 3), vec![1, 2, 3]].concat());
    let begin = stream.as_ptr();
    let mut deframer = Deframer::new(3, 0);
    deframer.push(stream);
    assert_eq!(deframer.next_message_bytes(), Ok(Some(8)));
    let message = deframer.take_message().unwrap().unwrap();
    assert_eq!(message.as_ptr(), begin.wrapping_add(5));
}

#[test]
fn compressed_and_long_messages_are_refused_at_their_headers() {
    for (bytes, expected) in
        [(header(1, 0), FramingError::Compressed), (header(0, 4), FramingError::TooLong { bytes: 4 })]
    {
        // The header arrives in two parts.
        let mut deframer = Deframer::new(3, 0);
        deframer.push(Bytes::copy_from_slice(&bytes[..2]));
        assert_eq!(deframer.take_message(), Ok(None));
        assert_eq!(deframer.next_message_bytes(), Ok(None));
        assert_eq!(deframer.held_bytes(), 2);
        deframer.push(Bytes::copy_from_slice(&bytes[2..]));
        assert_eq!(deframer.next_message_bytes(), Err(expected));
        assert_eq!(deframer.take_message(), Err(expected));
    }
}

#[test]
fn a_framed_message_is_read_again() {
    let request = SampleStreamRequest { table: "t".to_owned(), num_samples: 7, ..Default::default() };
    let mut deframer = Deframer::new(100, 0);
    deframer.push(framed(&request));
    let message = deframer.take_message().unwrap().unwrap();
    assert_eq!(SampleStreamRequest::decode(message).unwrap(), request);
}
