//! Blocks of references to chunks.

use crate::fast_map::FastMap;
use crate::layout::{Cursor, Malformed, Put, planes};
use crate::segment::{Place, SegmentId};

pub(crate) fn encode_chunks(places: &[Place]) -> Vec<u8> {
    let mut numbers: FastMap<SegmentId, u32> = FastMap::default();
    let mut ids = Vec::new();
    let mut columns: [Vec<u32>; 4] = Default::default();
    let [segments, gaps, lengths, crcs] = &mut columns;
    let mut ends = Ends::default();
    for place in places {
        let number = *numbers.entry(place.segment).or_insert_with(|| {
            ids.push(place.segment);
            u32::try_from(ids.len() - 1).expect("a block has 65,536 chunks at most")
        });
        segments.push(number);
        gaps.push(place.offset.wrapping_sub(ends.before(number)));
        lengths.push(place.length);
        crcs.push(place.crc);
        ends.set(number, place);
    }
    let mut out = Vec::new();
    out.put_count(ids.len());
    ids.iter().for_each(|id| out.put(&id.0));
    columns.iter().for_each(|column| planes::put_u32s(&mut out, column));
    out
}

pub(crate) fn decode_chunks(bytes: &[u8], count: u32) -> Result<Vec<Place>, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let ids = cursor.count(16)?;
    let ids: Vec<SegmentId> = (0..ids).map(|_| cursor.array().map(SegmentId)).collect::<Result<_, _>>()?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut column = || planes::take_u32s(&mut cursor, count);
    let (segments, gaps, lengths, crcs) = (column()?, column()?, column()?, column()?);
    cursor.finish()?;
    let mut ends = Ends::default();
    let rows = segments.into_iter().zip(gaps).zip(lengths).zip(crcs);
    let place = |(((number, gap), length), crc): (((u32, u32), u32), u32)| {
        let segment = usize::try_from(number).ok().and_then(|number| ids.get(number)).copied();
        let segment =
            segment.ok_or(Malformed::Code { what: "the segment of a chunk", code: number.into() })?;
        let offset = ends.before(number).wrapping_add(gap);
        let place = Place { segment, offset, length, crc };
        ends.set(number, &place);
        Ok(place)
    };
    rows.map(place).collect()
}

/// The end of the previous chunk's record. The places of further chunks in the same segment are relative to it.
#[derive(Default)]
struct Ends(Option<(u32, u32)>);

impl Ends {
    fn before(&self, number: u32) -> u32 {
        self.0.filter(|(last, _)| *last == number).map_or(0, |(_, end)| end)
    }

    fn set(&mut self, number: u32, place: &Place) {
        let head = u32::try_from(crate::segment::record::HEAD_BYTES).expect("8 fits");
        self.0 = Some((number, place.offset.wrapping_add(head).wrapping_add(place.length)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunk_locations_round_trip(
            places in prop::collection::vec((0_u8..3, any::<u32>(), any::<u32>(), any::<u32>()), 0..50),
        ) {
            let place = |(id, offset, length, crc)| Place { segment: SegmentId([id; 16]), offset, length, crc };
            let places: Vec<Place> = places.into_iter().map(place).collect();
            let bytes = encode_chunks(&places);
            let count = u32::try_from(places.len()).unwrap();
            prop_assert_eq!(decode_chunks(&bytes, count), Ok(places));
            prop_assert!(decode_chunks(&bytes, count + 1).is_err());
        }
    }

    #[test]
    fn consecutive_records_compress_to_their_checksums() {
        let place = |number: u32| Place {
            segment: SegmentId([1; 16]),
            offset: 32 + number * 4048,
            length: 4040,
            crc: number.wrapping_mul(0x9e37_79b9),
        };
        let places: Vec<Place> = (0..10_000).map(place).collect();
        let (_, stored) = crate::manifest::BlockHead::encode(
            crate::manifest::Kind::Chunks,
            0,
            0,
            10_000,
            encode_chunks(&places),
        )
        .unwrap();
        assert!(stored.len() < 41_000, "{} bytes", stored.len());
    }
}
