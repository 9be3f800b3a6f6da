//! The first bytes of a segment.

use thiserror::Error;

use super::SegmentId;

pub(crate) const HEADER_BYTES: usize = 32;

const MAGIC: [u8; 8] = *b"RLVCHNKS";
const VERSION: u32 = 1;

/// The reason why the first bytes of a file are not the segment's header.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum HeaderFault {
    #[error("it does not start like a segment")]
    Magic,
    #[error("its version is {0}, but this Relive reads version {VERSION}: a later version wrote it")]
    Version(u32),
    #[error("it is segment {0}, which does not match its name")]
    Id(SegmentId),
    #[error("its header has a wrong checksum")]
    Checksum,
}

pub(crate) fn header(id: SegmentId) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..28].copy_from_slice(&id.0);
    let crc = crc32c::crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks that a segment with the given id may start with the given bytes.
pub(crate) fn check_header(bytes: &[u8; HEADER_BYTES], id: SegmentId) -> Result<(), HeaderFault> {
    if *bytes == header(id) {
        return Ok(());
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    let found = SegmentId(*bytes[12..].first_chunk().expect("20 bytes are left"));
    Err(match bytes.starts_with(&MAGIC) {
        false => HeaderFault::Magic,
        true if *bytes == header(found) => HeaderFault::Id(found),
        true if version != VERSION && crc32c::crc32c(&bytes[..28]).to_le_bytes() == bytes[28..] => {
            HeaderFault::Version(version)
        }
        true => HeaderFault::Checksum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_header_fault_is_reported() {
        let (id, other) = (SegmentId([7; 16]), SegmentId([8; 16]));
        let whole = header(id);
        assert_eq!(check_header(&whole, id), Ok(()));
        assert_eq!(check_header(&whole, other), Err(HeaderFault::Id(id)));
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = whole;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 64 { HeaderFault::Magic } else { HeaderFault::Checksum };
            assert_eq!(check_header(&bytes, id), Err(expected), "bit {bit}");
        }
        let mut later = whole;
        later[8] = 2;
        let crc = crc32c::crc32c(&later[..28]);
        later[28..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(check_header(&later, id), Err(HeaderFault::Version(2)));
    }
}
