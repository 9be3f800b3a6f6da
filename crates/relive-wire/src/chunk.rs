//! Chunks and encoded `ChunkData` messages.
//!
//! A message is inspected in place: only the description of its tensors is parsed, the payloads are validated but not
//! decoded, and the message itself becomes the chunk's frame. When such a chunk is sent, the same bytes are sent. A
//! message with unknown fields is an exception: its payloads are copied to a new frame, so that readers never receive
//! unchecked bytes.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use relive_tensor::codec::strings;
use relive_tensor::limits::MAX_CHUNK_COLUMNS;
use relive_tensor::{
    Chunk, ChunkParts, Codec, ColumnHeader, DType, PlainColumn, PlainCut, SequenceRange, Shape,
};
use smallvec::SmallVec;

use crate::WireError;
use crate::codec;
use crate::dtype;
use crate::limits::MAX_LISTED_STRINGS;
use crate::reader::{Field, Fields, MalformedMessage, int32, int64};

/// Parses an encoded `ChunkData` and checks that every column can be decoded.
///
/// # Errors
/// The bytes are not a `ChunkData`, they contain data types that chunks do not support, or shapes and payloads
/// contradict each other. The error names the chunk, the column and the reason.
pub fn decode(message: &[u8]) -> Result<Chunk, WireError> {
    Description::read(message)?.into_chunk(message)
}

/// Returns the key of an encoded `ChunkData`.
///
/// # Errors
/// The message cannot be parsed.
pub fn key(message: &[u8]) -> Result<u64, WireError> {
    Ok(Description::read(message)?.key)
}

/// The result of one pass over an encoded `ChunkData`, whose payloads are not validated yet.
#[derive(Debug)]
pub struct Description {
    key: u64,
    range: SequenceRange,
    delta_encoded: bool,
    tensors: SmallVec<[TensorDescription; 1]>,
    declared_tensors: i32,
    /// Whether all fields are known.
    is_plain: bool,
}

#[derive(Debug)]
struct TensorDescription {
    dtype: DType,
    codec: Codec,
    shape: Shape,
    content: Option<Range<usize>>,
    listed_strings: Vec<Range<usize>>,
    is_plain: bool,
}

impl Description {
    /// Parses the description of the tensors in an encoded `ChunkData`.
    ///
    /// # Errors
    /// The message cannot be parsed.
    pub fn read(message: &[u8]) -> Result<Self, WireError> {
        let mut this = Self {
            key: 0,
            range: SequenceRange { episode_id: 0, start: 0, end: 0, sparse: false },
            delta_encoded: false,
            tensors: SmallVec::new(),
            declared_tensors: 0,
            is_plain: true,
        };
        let mut fields = Fields::new(message, 0..message.len());
        while let Some(field) = fields.next().map_err(|e| WireError::malformed(this.key, e))? {
            this.take(message, &field)?;
        }
        this.check_count()?;
        Ok(this)
    }

    /// Returns the key of the chunk.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Validates the payloads in `message`, which has this description, and returns the chunk.
    ///
    /// # Errors
    /// The errors of [`decode`].
    pub fn into_chunk(self, message: &[u8]) -> Result<Chunk, WireError> {
        Ok(Chunk::new(self.into_parts(message)?)?)
    }

    fn take(&mut self, message: &[u8], field: &Field) -> Result<(), WireError> {
        let key = self.key;
        let malformed = |e| WireError::malformed(key, e);
        match field.number {
            1 => self.key = field.varint().map_err(malformed)?,
            2 => self.is_plain &= read_range(message, field, &mut self.range).map_err(malformed)?,
            3 => {
                let reason = "it uses the obsolete field deprecated_data (until December 2020)".to_owned();
                return Err(WireError::MalformedChunk { key, reason });
            }
            4 => self.delta_encoded = field.varint().map_err(malformed)? != 0,
            5 => self.take_tensors(message, field.bytes().map_err(malformed)?)?,
            6 => self.declared_tensors = int32(field.varint().map_err(malformed)?),
            7 => field.varint().map(drop).map_err(malformed)?,
            _ => self.is_plain = false,
        }
        Ok(())
    }

    fn take_tensors(&mut self, message: &[u8], data: Range<usize>) -> Result<(), WireError> {
        let key = self.key;
        let mut fields = Fields::new(message, data);
        while let Some(field) = fields.next().map_err(|e| WireError::malformed(key, e))? {
            if field.number == 1 {
                let range = field.bytes().map_err(|e| WireError::malformed(key, e))?;
                let column = self.tensors.len();
                if column == MAX_CHUNK_COLUMNS {
                    let reason = format!("it has more than {MAX_CHUNK_COLUMNS} tensors");
                    return Err(WireError::MalformedChunk { key, reason });
                }
                let tensor = TensorDescription::read(message, range, key, column)?;
                self.is_plain &= tensor.is_plain && tensor.listed_strings.is_empty();
                self.tensors.push(tensor);
            } else {
                self.is_plain = false;
            }
        }
        Ok(())
    }

    fn check_count(&self) -> Result<(), WireError> {
        let found = self.tensors.len();
        let declared = usize::try_from(self.declared_tensors).unwrap_or(usize::MAX);
        if self.declared_tensors == 0 || declared == found {
            return Ok(());
        }
        let reason = format!("data_tensors_len is {}, but it has {found} tensors", self.declared_tensors);
        Err(WireError::MalformedChunk { key: self.key, reason })
    }

    fn into_parts(self, message: &[u8]) -> Result<ChunkParts, WireError> {
        if !self.is_plain {
            return self.gather(message);
        }
        let mut columns = SmallVec::with_capacity(self.tensors.len());
        for tensor in self.tensors {
            columns.push(tensor.header(self.key, tensor.content.clone().unwrap_or(0..0))?);
        }
        Ok(ChunkParts {
            key: self.key,
            range: self.range,
            columns,
            delta_encoded: self.delta_encoded,
            frame: message.into(),
            verbatim: true,
        })
    }

    /// Builds the frame of a chunk if its message cannot be kept: consecutive payloads, with strings in the compact
    /// form.
    fn gather(self, message: &[u8]) -> Result<ChunkParts, WireError> {
        let mut frame = Vec::new();
        let mut columns = Vec::with_capacity(self.tensors.len());
        for tensor in self.tensors {
            let start = frame.len();
            if tensor.listed_strings.is_empty() {
                let content = tensor.content.clone().unwrap_or(0..0);
                frame.extend_from_slice(message.get(content).unwrap_or_default());
            } else {
                let element = |range: &Range<usize>| message.get(range.clone()).map(Bytes::copy_from_slice);
                let elements: Vec<Bytes> = tensor.listed_strings.iter().filter_map(element).collect();
                strings::encode(&elements, &mut frame).map_err(|error| WireError::MalformedChunk {
                    key: self.key,
                    reason: error.to_string(),
                })?;
            }
            columns.push(tensor.header(self.key, start..frame.len())?);
        }
        Ok(ChunkParts {
            key: self.key,
            range: self.range,
            columns: columns.into_iter().collect(),
            delta_encoded: self.delta_encoded,
            frame: frame.into(),
            verbatim: false,
        })
    }
}

impl TensorDescription {
    fn read(message: &[u8], range: Range<usize>, key: u64, column: usize) -> Result<Self, WireError> {
        let malformed = |e| WireError::malformed(key, e);
        let (mut number, mut dims, mut content, mut listed) = (0, Dims::new(), None, Vec::new());
        let (mut is_plain, mut codec_number) = (true, 0);
        let mut fields = Fields::new(message, range);
        while let Some(field) = fields.next().map_err(malformed)? {
            match field.number {
                1 => number = int64(field.varint().map_err(malformed)?),
                2 => {
                    let range = field.bytes().map_err(malformed)?;
                    is_plain &= read_dims(message, range, &mut dims, (key, column))?;
                }
                4 => content = Some(field.bytes().map_err(malformed)?),
                8 if listed.len() == MAX_LISTED_STRINGS => {
                    let reason =
                        format!("column {column} lists more than {MAX_LISTED_STRINGS} strings individually");
                    return Err(WireError::MalformedChunk { key, reason });
                }
                8 => listed.push(field.bytes().map_err(malformed)?),
                codec::TENSOR_FIELD => codec_number = field.varint().map_err(malformed)?,
                _ => is_plain = false,
            }
        }
        let dtype = dtype::from_wire(number).ok_or(WireError::UnsupportedDtype { key, column, number })?;
        let codec = match codec::from_wire(codec_number) {
            Some(Codec::Snappy) if dtype == DType::String => Codec::Raw,
            known => known.ok_or(WireError::UnknownCodec { key, column, number: codec_number })?,
        };
        if dtype != DType::String && !listed.is_empty() {
            listed.clear();
            is_plain = false;
        }
        Ok(Self {
            dtype,
            codec,
            shape: dims.into_iter().collect(),
            content,
            listed_strings: listed,
            is_plain,
        })
    }

    fn header(&self, key: u64, span: Range<usize>) -> Result<ColumnHeader, WireError> {
        let narrow = |at: usize| {
            u32::try_from(at).map_err(|_| WireError::MalformedChunk {
                key,
                reason: format!("it is larger than {} bytes", u32::MAX),
            })
        };
        Ok(ColumnHeader {
            dtype: self.dtype,
            codec: self.codec,
            shape: self.shape.clone(),
            span: narrow(span.start)?..narrow(span.end)?,
        })
    }
}

/// Dimensions of a tensor; few have more than four.
type Dims = SmallVec<[u32; 4]>;

/// Parses a `SequenceRange` into `range`, because protobuf merges a message that is sent in several parts. Returns
/// whether all fields are known.
fn read_range(message: &[u8], field: &Field, range: &mut SequenceRange) -> Result<bool, MalformedMessage> {
    let mut is_plain = true;
    let mut fields = Fields::new(message, field.bytes()?);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => range.episode_id = field.varint()?,
            2 => range.start = int32(field.varint()?),
            3 => range.end = int32(field.varint()?),
            4 => range.sparse = field.varint()? != 0,
            _ => is_plain = false,
        }
    }
    Ok(is_plain)
}

/// Appends the dimensions of a `TensorShapeProto` to `dims`. `of` is the chunk and column that errors name. Returns
/// whether all fields are known.
fn read_dims(
    message: &[u8],
    range: Range<usize>,
    dims: &mut Dims,
    of: (u64, usize),
) -> Result<bool, WireError> {
    let (key, column) = of;
    let malformed = |e| WireError::malformed(key, e);
    let mut is_plain = true;
    let mut fields = Fields::new(message, range);
    while let Some(field) = fields.next().map_err(malformed)? {
        if field.number != 2 {
            is_plain = false;
            continue;
        }
        let mut size = 0;
        let mut dim = Fields::new(message, field.bytes().map_err(malformed)?);
        while let Some(field) = dim.next().map_err(malformed)? {
            if field.number == 1 {
                size = int64(field.varint().map_err(malformed)?);
            } else {
                is_plain = false;
            }
        }
        dims.push(u32::try_from(size).map_err(|_| WireError::Dimension { key, column, size })?);
    }
    Ok(is_plain)
}

/// Returns the encoded `ChunkData` of `chunk`: the received bytes, or a message around its payloads.
///
/// Readers that support only Snappy, such as dm-reverb's, must receive only chunks with this [codec](Chunk::codecs):
/// see [`Chunk::recoded`].
#[must_use]
pub fn encode(chunk: &Chunk) -> Bytes {
    if chunk.is_verbatim() {
        return Bytes::copy_from_slice(&chunk.frame());
    }
    let mut out = BytesMut::with_capacity(encoded_len(chunk));
    put(chunk, &mut out);
    out.freeze()
}

/// Returns the message of an uncompressed chunk. It is written directly from the chunk's rows.
#[must_use]
pub fn encode_plain(cut: &PlainCut<'_>) -> Bytes {
    let columns = cut.columns().iter().map(|column| DescribedColumn {
        dtype: column.dtype(),
        codec: column.codec(),
        shape: column.shape(),
        payload: column.len(),
    });
    let size = cut.columns().iter().map(|column| column.num_bytes() as u64).sum();
    let layout = Layout::of(cut.key(), cut.range(), false, size, &columns.collect::<Vec<_>>());
    let mut out = Vec::with_capacity(layout.total);
    layout.put(&mut out, |column, out| {
        for part in cut.columns().get(column).into_iter().flat_map(PlainColumn::parts) {
            out.extend_from_slice(part);
        }
    });
    out.into()
}

/// Returns the length of [`encode`]'s result in bytes.
#[must_use]
pub fn encoded_len(chunk: &Chunk) -> usize {
    if chunk.is_verbatim() { frame_len(chunk) } else { Layout::of_chunk(chunk).total }
}

/// Appends [`encode`]'s result to `out`.
pub fn put(chunk: &Chunk, out: &mut impl BufMut) {
    if chunk.is_verbatim() {
        out.put_slice(&chunk.frame());
        return;
    }
    let frame = chunk.frame();
    Layout::of_chunk(chunk).put(out, |column, out| {
        let span = chunk.column(column).map_or(0..0, span);
        out.put_slice(frame.get(span).unwrap_or_default());
    });
}

/// The description of a column in a message.
struct DescribedColumn<'a> {
    dtype: DType,
    codec: Codec,
    shape: &'a Shape,
    /// The number of bytes in the column's payload.
    payload: usize,
}

/// The small encoded parts of a chunk's message, and the lengths of the other parts.
struct Layout {
    head: Vec<u8>,
    /// The description of each tensor, and the number of bytes in its payload.
    tensors: Vec<(Vec<u8>, usize)>,
    tail: Vec<u8>,
    data_len: usize,
    total: usize,
}

impl Layout {
    fn of_chunk(chunk: &Chunk) -> Self {
        let columns = chunk.columns().iter().map(|header| DescribedColumn {
            dtype: header.dtype,
            codec: header.codec,
            shape: &header.shape,
            payload: span(header).len(),
        });
        let (key, delta, size) = (chunk.key(), chunk.is_delta_encoded(), chunk.uncompressed_size_bytes());
        Self::of(key, chunk.range(), delta, size, &columns.collect::<Vec<_>>())
    }

    fn of(
        key: u64,
        range: SequenceRange,
        delta_encoded: bool,
        uncompressed: u64,
        columns: &[DescribedColumn<'_>],
    ) -> Self {
        use prost::Message;

        use crate::reverb::ChunkData;
        let head = ChunkData {
            chunk_key: key,
            sequence_range: Some(crate::reverb::SequenceRange {
                episode_id: range.episode_id,
                start: range.start,
                end: range.end,
                sparse: range.sparse,
            }),
            delta_encoded,
            ..ChunkData::default()
        }
        .encode_to_vec();
        let tail = ChunkData {
            data_tensors_len: i32::try_from(columns.len()).unwrap_or(0),
            data_uncompressed_size: i64::try_from(uncompressed).unwrap_or(i64::MAX),
            ..ChunkData::default()
        }
        .encode_to_vec();
        let tensors: Vec<(Vec<u8>, usize)> =
            columns.iter().map(|column| (tensor_head(column), column.payload)).collect();
        let tensor_len = |(head, payload): &(Vec<u8>, usize)| {
            bytes_field_len(1, head.len() + bytes_field_len(4, *payload))
        };
        let data_len = tensors.iter().map(tensor_len).sum();
        let total = head.len() + bytes_field_len(5, data_len) + tail.len();
        Self { head, tensors, tail, data_len, total }
    }

    /// Writes the message. `put_payload` writes the payload of each column.
    fn put<B: BufMut>(&self, out: &mut B, put_payload: impl Fn(usize, &mut B)) {
        out.put_slice(&self.head);
        encode_key(5, WireType::LengthDelimited, out);
        encode_varint(self.data_len as u64, out);
        for (number, (head, payload)) in self.tensors.iter().enumerate() {
            encode_key(1, WireType::LengthDelimited, out);
            encode_varint((head.len() + bytes_field_len(4, *payload)) as u64, out);
            out.put_slice(head);
            encode_key(4, WireType::LengthDelimited, out);
            encode_varint(*payload as u64, out);
            put_payload(number, out);
        }
        out.put_slice(&self.tail);
    }
}

fn tensor_head(column: &DescribedColumn<'_>) -> Vec<u8> {
    use prost::Message;

    use crate::tensorflow::TensorProto;
    TensorProto {
        dtype: dtype::to_wire(column.dtype).into(),
        tensor_shape: Some(crate::signature::shape_to_wire(column.shape)),
        relive_codec: if column.dtype == DType::String { 0 } else { codec::to_wire(column.codec) },
        ..TensorProto::default()
    }
    .encode_to_vec()
}

fn span(header: &ColumnHeader) -> Range<usize> {
    header.span.start as usize..header.span.end as usize
}

fn frame_len(chunk: &Chunk) -> usize {
    usize::try_from(chunk.size_bytes()).unwrap_or(usize::MAX)
}

fn bytes_field_len(tag: u32, length: usize) -> usize {
    prost::encoding::key_len(tag) + encoded_len_varint(length as u64) + length
}
