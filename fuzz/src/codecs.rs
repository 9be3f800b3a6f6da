//! Payloads of chunks: one byte for the codec, two for the expected length or count, then the payload.

use relive_tensor::Codec;
use relive_tensor::codec::strings;

/// Checks that validation and decoding agree, and that encoded data can be decoded.
pub fn check(data: &[u8]) -> bool {
    let Some(([kind, low, high], payload)) = data.split_first_chunk() else { return false };
    let expected = u16::from_le_bytes([*low, *high]);
    match Codec::ALL.get(usize::from(*kind) % (Codec::ALL.len() + 1)) {
        Some(codec) => bytes(*codec, payload, expected.into()),
        None => texts(payload, expected.into()),
    }
}

fn bytes(codec: Codec, payload: &[u8], expected_len: usize) -> bool {
    let mut encoded = Vec::new();
    codec.encode(payload, &mut encoded).expect("small inputs can be encoded");
    codec.validate(&encoded, payload.len()).expect("what was just encoded");
    assert_eq!(codec.decode(&encoded, payload.len()).expect("what was just encoded"), payload);

    let valid = codec.validate(payload, expected_len);
    let decoded = codec.decode(payload, expected_len);
    match (&valid, &decoded) {
        (Ok(()), Ok(decoded)) => assert_eq!(decoded.len(), expected_len),
        (Err(_), Err(_)) => (),
        // The library's one-pass decoder is sometimes more lenient than the streaming decoder that validates.
        (Err(_), Ok(_)) if codec == Codec::Zstd => (),
        _ => panic!("{codec}: validated as {valid:?}, decoded as {decoded:?}"),
    }
    valid.is_ok()
}

fn texts(payload: &[u8], count: u64) -> bool {
    let valid = strings::validate(payload, count);
    let decoded = strings::decode(payload, count);
    match (&valid, &decoded) {
        (Ok(characters), Ok(values)) => {
            assert_eq!(u64::try_from(values.len()), Ok(count));
            let total = values.iter().map(bytes::Bytes::len).sum::<usize>();
            assert_eq!(u64::try_from(total), Ok(*characters));
            let mut encoded = Vec::new();
            strings::encode(values, &mut encoded).expect("small strings can be encoded");
            assert_eq!(strings::decode(&encoded, count).as_ref(), Ok(values));
        }
        _ => assert_eq!(valid.as_ref().err(), decoded.as_ref().err()),
    }
    valid.is_ok()
}
