//! Messages as bytes: a length, a kind, and fields in little-endian order.
//!
//! | Message | Kind | Body |
//! |---|---|---|
//! | join | 0 | magic, version `u16`, shard `u32`, epoch `u64`, token |
//! | hello | 1 | epoch `u64`, question `u32`, first `u64`, cost `u64` |
//! | items | 2 | epoch `u64`, first `u64`, count `u32`, a kind `u8` and a length `u32` for each, their bytes |
//! | accepted | 16 | – |
//! | refused | 17 | text |
//! | credit | 18 | epoch `u64`, question `u32`, next, taken, items, cost `u64` |
//! | replaced | 19 | epoch `u64` |
//! | closed | 20 | – |

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::limits::{MAX_ITEM_BYTES, MAX_ITEMS};
use super::message::{FromShard, Item, ToShard};

const MAGIC: &[u8; 4] = b"RLVS";
const VERSION: u16 = 1;

/// The maximum size of a token.
const MAX_TOKEN_BYTES: usize = 1024;

/// The maximum size of the first message, a join, while the peer is unknown.
pub(super) const MAX_JOIN_BYTES: usize = 1 + 4 + 2 + 4 + 8 + MAX_TOKEN_BYTES;

/// The maximum size of a message, which contains either the largest item or the maximum number of items.
pub(super) const MAX_MESSAGE_BYTES: usize = MAX_ITEM_BYTES + 5 * MAX_ITEMS + 64;

/// The size up to which items are copied into one buffer. Larger items are sent without copying.
const COPIED_BYTES: usize = 16 << 10;

/// The first message from a writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) shard: u32,
    pub(super) epoch: u64,
    pub(super) token: Bytes,
}

/// The reader's answer to a [`Join`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    Refused(String),
}

/// Prepends the length to a message.
fn framed(kind: u8, fill: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::with_capacity(64);
    out.put_u32_le(0);
    out.put_u8(kind);
    fill(&mut out);
    set_length(&mut out, 0);
    out
}

/// Writes the length of the message, including `beyond` bytes that are not in `out`.
fn set_length(out: &mut BytesMut, beyond: usize) {
    let length = u32::try_from(out.len() - 4 + beyond).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(..4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

impl Join {
    pub(super) fn to_bytes(&self) -> Bytes {
        let fill = |out: &mut BytesMut| {
            out.put_slice(MAGIC);
            out.put_u16_le(VERSION);
            out.put_u32_le(self.shard);
            out.put_u64_le(self.epoch);
            out.put_slice(&self.token);
        };
        framed(0, fill).freeze()
    }

    /// # Errors
    /// A description of the defect: the peer is not a writer with this version.
    pub(super) fn from_bytes(mut bytes: Bytes) -> Result<Join, String> {
        if bytes.try_get_u8() != Ok(0) || bytes.len() < 4 || bytes.split_to(4) != MAGIC[..] {
            return Err("it does not speak the protocol of streams".to_owned());
        }
        match bytes.try_get_u16_le() {
            Ok(VERSION) => {}
            Ok(version) => {
                return Err(format!(
                    "it uses version {version} of the protocol, but this side uses version {VERSION}"
                ));
            }
            Err(_) => return Err("its first message is truncated".to_owned()),
        }
        let cut_off = |_| "its first message is truncated".to_owned();
        let shard = bytes.try_get_u32_le().map_err(cut_off)?;
        let epoch = bytes.try_get_u64_le().map_err(cut_off)?;
        Ok(Join { shard, epoch, token: bytes })
    }
}

impl Answer {
    pub(super) fn to_bytes(&self) -> Bytes {
        match self {
            Answer::Accepted => framed(16, |_| {}),
            Answer::Refused(text) => framed(17, |out| out.put_slice(text.as_bytes())),
        }
        .freeze()
    }

    /// # Errors
    /// A description of the defect: the message has a different kind.
    pub(super) fn from_bytes(mut bytes: Bytes) -> Result<Answer, String> {
        match bytes.try_get_u8() {
            Ok(16) => Ok(Answer::Accepted),
            Ok(17) => Ok(Answer::Refused(String::from_utf8_lossy(&bytes).into_owned())),
            _ => Err("it does not speak the protocol of streams".to_owned()),
        }
    }
}

impl FromShard {
    /// Returns the message as a list of consecutive parts.
    pub(super) fn to_parts(&self) -> Vec<Bytes> {
        match self {
            FromShard::Hello { epoch, question, first, cost } => {
                let fill = |out: &mut BytesMut| {
                    out.put_u64_le(*epoch);
                    out.put_u32_le(*question);
                    out.put_u64_le(*first);
                    out.put_u64_le(*cost);
                };
                vec![framed(1, fill).freeze()]
            }
            FromShard::Items { epoch, first, items } => items_to_parts(*epoch, *first, items),
        }
    }

    /// # Errors
    /// A description of the defect.
    pub(super) fn from_bytes(mut bytes: Bytes) -> Result<FromShard, String> {
        let kind = bytes.try_get_u8().map_err(|_| "a message is empty".to_owned())?;
        let read = |bytes: &mut Bytes| -> Result<FromShard, bytes::TryGetError> {
            let epoch = bytes.try_get_u64_le()?;
            if kind == 1 {
                let (question, first) = (bytes.try_get_u32_le()?, bytes.try_get_u64_le()?);
                return Ok(FromShard::Hello { epoch, question, first, cost: bytes.try_get_u64_le()? });
            }
            Ok(FromShard::Items { epoch, first: bytes.try_get_u64_le()?, items: Vec::new() })
        };
        if kind != 1 && kind != 2 {
            return Err(format!("a message has the unknown kind {kind}"));
        }
        let mut message = read(&mut bytes).map_err(|_| "a message is truncated".to_owned())?;
        if let FromShard::Items { items, .. } = &mut message {
            *items = items_of(bytes)?;
        }
        Ok(message)
    }
}

fn parts_of(item: &Item) -> (u8, Bytes) {
    match item {
        Item::Data(bytes) => (0, bytes.clone()),
        Item::Failed(text) => (1, Bytes::copy_from_slice(text.as_bytes())),
        Item::End => (2, Bytes::new()),
    }
}

fn items_to_parts(epoch: u64, first: u64, items: &[Item]) -> Vec<Bytes> {
    let mut out = BytesMut::with_capacity(64 + items.len() * 5);
    out.put_u32_le(0);
    out.put_u8(2);
    out.put_u64_le(epoch);
    out.put_u64_le(first);
    out.put_u32_le(u32::try_from(items.len()).unwrap_or(u32::MAX));
    let items: Vec<(u8, Bytes)> = items.iter().map(parts_of).collect();
    let mut beyond = 0;
    for (kind, bytes) in &items {
        out.put_u8(*kind);
        out.put_u32_le(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        beyond += bytes.len();
    }
    set_length(&mut out, beyond);
    let mut parts = Vec::new();
    for (_, bytes) in items {
        if bytes.len() <= COPIED_BYTES {
            out.put_slice(&bytes);
        } else {
            parts.push(out.split().freeze());
            parts.push(bytes);
        }
    }
    if !out.is_empty() {
        parts.push(out.freeze());
    }
    parts
}

fn items_of(mut bytes: Bytes) -> Result<Vec<Item>, String> {
    let cut_off = |_| "a message of items is truncated".to_owned();
    let count = bytes.try_get_u32_le().map_err(cut_off)? as usize;
    if count > MAX_ITEMS {
        return Err(format!("a message has {count} items; the limit is {MAX_ITEMS}"));
    }
    let mut heads = Vec::with_capacity(count.min(bytes.len() / 5));
    for _ in 0..count {
        let kind = bytes.try_get_u8().map_err(cut_off)?;
        heads.push((kind, bytes.try_get_u32_le().map_err(cut_off)? as usize));
    }
    let item = |(kind, length): (u8, usize)| {
        if length > bytes.len() {
            return Err("a message of items is truncated".to_owned());
        }
        let content = bytes.split_to(length);
        match kind {
            0 => Ok(Item::Data(content)),
            1 => Ok(Item::Failed(String::from_utf8_lossy(&content).into_owned())),
            2 => Ok(Item::End),
            kind => Err(format!("an item has the unknown kind {kind}")),
        }
    };
    heads.into_iter().map(item).collect()
}

impl ToShard {
    pub(super) fn to_bytes(&self) -> Bytes {
        match self {
            ToShard::Credit { epoch, question, next, taken, items, cost } => framed(18, |out| {
                out.put_u64_le(*epoch);
                out.put_u32_le(*question);
                [next, taken, items, cost].into_iter().for_each(|number| out.put_u64_le(*number));
            }),
            ToShard::Replaced { by } => framed(19, |out| out.put_u64_le(*by)),
            ToShard::Closed => framed(20, |_| {}),
        }
        .freeze()
    }

    /// # Errors
    /// A description of the defect.
    pub(super) fn from_bytes(mut bytes: Bytes) -> Result<ToShard, String> {
        let read = |bytes: &mut Bytes| -> Result<Option<ToShard>, bytes::TryGetError> {
            Ok(Some(match bytes.try_get_u8()? {
                18 => ToShard::Credit {
                    epoch: bytes.try_get_u64_le()?,
                    question: bytes.try_get_u32_le()?,
                    next: bytes.try_get_u64_le()?,
                    taken: bytes.try_get_u64_le()?,
                    items: bytes.try_get_u64_le()?,
                    cost: bytes.try_get_u64_le()?,
                },
                19 => ToShard::Replaced { by: bytes.try_get_u64_le()? },
                20 => ToShard::Closed,
                _ => return Ok(None),
            }))
        };
        let message = read(&mut bytes).map_err(|_| "a message is truncated".to_owned())?;
        message.ok_or_else(|| "a message has an unknown kind".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_item() -> impl Strategy<Value = Item> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40_000).prop_map(|bytes| Item::Data(bytes.into())),
            ".{0,20}".prop_map(Item::Failed),
            Just(Item::End),
        ]
    }

    /// Checks the length of a message, and returns the rest of the message.
    fn body(parts: &[Bytes]) -> Bytes {
        let mut bytes = Bytes::from(parts.concat());
        assert_eq!(bytes.get_u32_le() as usize, bytes.len());
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn stream_items_round_trip(
            items in prop::collection::vec(any_item(), 0..20), epoch: u64, first: u64, cut in 0_usize..100,
        ) {
            let message = FromShard::Items { epoch, first, items };
            let bytes = body(&message.to_parts());
            prop_assert_eq!(&FromShard::from_bytes(bytes.clone()).unwrap(), &message);
            if cut > 0 && cut <= bytes.len() {
                prop_assert!(FromShard::from_bytes(bytes.slice(..bytes.len() - cut)).is_err());
            }
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            let _ = (FromShard::from_bytes(bytes.clone()), ToShard::from_bytes(bytes.clone()));
            let _ = (Join::from_bytes(bytes.clone()), Answer::from_bytes(bytes));
        }
    }

    #[test]
    fn other_messages_round_trip() {
        let hello = FromShard::Hello { epoch: 3, question: 9, first: 1 << 40, cost: 7 };
        assert_eq!(FromShard::from_bytes(body(&hello.to_parts())), Ok(hello));
        let credit = ToShard::Credit { epoch: 1, question: 2, next: 3, taken: 4, items: 5, cost: 6 };
        for message in [credit, ToShard::Replaced { by: 4 }, ToShard::Closed] {
            assert_eq!(ToShard::from_bytes(body(&[message.to_bytes()])), Ok(message));
        }
        for answer in [Answer::Accepted, Answer::Refused("no".to_owned())] {
            assert_eq!(Answer::from_bytes(body(&[answer.to_bytes()])), Ok(answer));
        }
        let join = Join { shard: 4, epoch: 2, token: Bytes::from_static(b"secret") };
        assert_eq!(Join::from_bytes(body(&[join.to_bytes()])), Ok(join));
    }

    #[test]
    fn invalid_writer_greetings_are_refused_with_the_reason() {
        let refused = |bytes: &'static [u8]| Join::from_bytes(Bytes::from_static(bytes)).unwrap_err();
        assert_eq!(refused(b"GET / HTTP/1.1"), "it does not speak the protocol of streams");
        assert_eq!(
            refused(b"\0RLVS\x09\0"),
            "it uses version 9 of the protocol, but this side uses version 1"
        );
        assert_eq!(refused(b"\0RLVS\x01\0\0"), "its first message is truncated");
    }
}
