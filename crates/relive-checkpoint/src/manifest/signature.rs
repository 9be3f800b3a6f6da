//! Signatures as bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use relive_tensor::{Nest, Shape, Signature, Tensor, TensorSpec};

use crate::layout::{Cursor, Malformed, Put, dtype_code, dtype_of};

/// The limit on the nesting levels of a signature. Signatures from the network have fewer than 100 levels, the limit of
/// protobuf's decoders.
const MAX_DEPTH: usize = 128;

const LEAF: u8 = 0;
const LIST: u8 = 1;
const TUPLE: u8 = 2;
const DICT: u8 = 3;
const NAMED_TUPLE: u8 = 4;
const NONE: u8 = 5;

/// The encoded size of an unknown dimension.
const UNKNOWN_SIZE: i64 = -1;

pub(super) fn put_signature(out: &mut Vec<u8>, signature: &Signature) {
    put_node(out, signature, &put_spec);
}

/// A structure without values at its leaves.
pub(super) fn put_names(out: &mut Vec<u8>, names: &Nest<()>) {
    put_node(out, names, &|_, ()| {});
}

fn put_node<T>(out: &mut Vec<u8>, node: &Nest<T>, put_leaf: &impl Fn(&mut Vec<u8>, &T)) {
    match node {
        Nest::Leaf(leaf) => {
            out.put_u8(LEAF);
            put_leaf(out, leaf);
        }
        Nest::List(nodes) => put_nodes(out, LIST, nodes, put_leaf),
        Nest::Tuple(nodes) => put_nodes(out, TUPLE, nodes, put_leaf),
        Nest::Dict(nodes) => {
            out.put_u8(DICT);
            put_named(out, nodes.len(), nodes.iter(), put_leaf);
        }
        Nest::NamedTuple { name, fields } => {
            out.put_u8(NAMED_TUPLE);
            out.put_text(name);
            put_named(out, fields.len(), fields.iter().map(|(name, node)| (name, node)), put_leaf);
        }
        Nest::None => out.put_u8(NONE),
    }
}

fn put_nodes<T>(out: &mut Vec<u8>, kind: u8, nodes: &[Nest<T>], put_leaf: &impl Fn(&mut Vec<u8>, &T)) {
    out.put_u8(kind);
    out.put_count(nodes.len());
    nodes.iter().for_each(|node| put_node(out, node, put_leaf));
}

fn put_named<'a, T: 'a>(
    out: &mut Vec<u8>,
    count: usize,
    nodes: impl Iterator<Item = (&'a String, &'a Nest<T>)>,
    put_leaf: &impl Fn(&mut Vec<u8>, &T),
) {
    out.put_count(count);
    for (name, node) in nodes {
        out.put_text(name);
        put_node(out, node, put_leaf);
    }
}

fn put_spec(out: &mut Vec<u8>, spec: &TensorSpec) {
    out.put_text(&spec.name);
    out.put_u8(dtype_code(spec.dtype));
    out.put_u8(spec.shape.is_some().into());
    if let Some(sizes) = &spec.shape {
        out.put_count(sizes.len());
        sizes.iter().for_each(|size| out.put_i64(size.map_or(UNKNOWN_SIZE, i64::from)));
    }
    out.put_u8(spec.bounds.is_some().into());
    if let Some((least, greatest)) = &spec.bounds {
        put_tensor(out, least);
        put_tensor(out, greatest);
    }
}

fn put_tensor(out: &mut Vec<u8>, tensor: &Tensor) {
    out.put_u8(dtype_code(tensor.dtype()));
    out.put_u8(u8::try_from(tensor.shape().rank()).expect("a tensor has at most 254 dimensions"));
    tensor.shape().dims().iter().for_each(|size| out.put_u32(*size));
    match (tensor.bytes(), tensor.strings()) {
        (Some(bytes), _) => out.put(bytes),
        (None, values) => values.unwrap_or_default().iter().for_each(|value| out.put_sized(value)),
    }
}

pub(super) fn signature(cursor: &mut Cursor<'_>) -> Result<Signature, Malformed> {
    node(cursor, MAX_DEPTH, &spec)
}

/// A structure without values at its leaves.
pub(super) fn names(cursor: &mut Cursor<'_>) -> Result<Nest<()>, Malformed> {
    node(cursor, MAX_DEPTH, &|_: &mut Cursor<'_>| Ok(()))
}

fn node<T>(
    cursor: &mut Cursor<'_>,
    depth: usize,
    leaf: &impl Fn(&mut Cursor<'_>) -> Result<T, Malformed>,
) -> Result<Nest<T>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed::Deep { limit: MAX_DEPTH })?;
    Ok(match cursor.u8()? {
        LEAF => Nest::Leaf(leaf(cursor)?),
        LIST => Nest::List(nodes(cursor, depth, leaf)?),
        TUPLE => Nest::Tuple(nodes(cursor, depth, leaf)?),
        DICT => {
            let named = named(cursor, depth, leaf)?;
            let count = named.len();
            let nodes: BTreeMap<_, _> = named.into_iter().collect();
            if nodes.len() != count {
                return Err(Malformed::Repeated { field: "key of a dict" });
            }
            Nest::Dict(nodes)
        }
        NAMED_TUPLE => {
            Nest::NamedTuple { name: cursor.text()?.to_owned(), fields: named(cursor, depth, leaf)? }
        }
        NONE => Nest::None,
        code => return Err(Malformed::Code { what: "the kind of a node", code: code.into() }),
    })
}

fn nodes<T>(
    cursor: &mut Cursor<'_>,
    depth: usize,
    leaf: &impl Fn(&mut Cursor<'_>) -> Result<T, Malformed>,
) -> Result<Vec<Nest<T>>, Malformed> {
    let count = cursor.count(1)?;
    (0..count).map(|_| node(cursor, depth, leaf)).collect()
}

fn named<T>(
    cursor: &mut Cursor<'_>,
    depth: usize,
    leaf: &impl Fn(&mut Cursor<'_>) -> Result<T, Malformed>,
) -> Result<Vec<(String, Nest<T>)>, Malformed> {
    let count = cursor.count(5)?;
    (0..count).map(|_| Ok((cursor.text()?.to_owned(), node(cursor, depth, leaf)?))).collect()
}

fn spec(cursor: &mut Cursor<'_>) -> Result<TensorSpec, Malformed> {
    let name = cursor.text()?.to_owned();
    let dtype = dtype_of(cursor.u8()?)?;
    let shape = if cursor.flag("whether a rank is known")? { Some(sizes(cursor)?) } else { None };
    let has_bounds = cursor.flag("whether a spec has bounds")?;
    let bounds = if has_bounds { Some((tensor(cursor)?, tensor(cursor)?)) } else { None };
    Ok(TensorSpec { name, shape, dtype, bounds })
}

fn sizes(cursor: &mut Cursor<'_>) -> Result<Vec<Option<u32>>, Malformed> {
    let count = cursor.count(8)?;
    let size = |cursor: &mut Cursor<'_>| match cursor.i64()? {
        UNKNOWN_SIZE => Ok(None),
        size => match u32::try_from(size) {
            Ok(size) => Ok(Some(size)),
            Err(_) => Err(Malformed::Code { what: "the size of a dimension", code: size.cast_unsigned() }),
        },
    };
    (0..count).map(|_| size(cursor)).collect()
}

fn tensor(cursor: &mut Cursor<'_>) -> Result<Tensor, Malformed> {
    let dtype = dtype_of(cursor.u8()?)?;
    let rank = cursor.u8()?;
    let no_tensor = || Malformed::Code { what: "the bound of a spec", code: dtype_code(dtype).into() };
    let sizes = cursor.bytes(4 * u64::from(rank))?.as_chunks().0;
    let shape = Shape::from_signed(sizes.iter().map(|size| u32::from_le_bytes(*size).into()));
    let shape = shape.map_err(|_| no_tensor())?;
    let count = shape.num_elements().ok_or_else(no_tensor)?;
    match dtype.size_bytes() {
        Some(size) => {
            let bytes = cursor.bytes(count.saturating_mul(size as u64))?;
            Tensor::new(dtype, shape, Bytes::copy_from_slice(bytes)).map_err(|_| no_tensor())
        }
        None => {
            let value = |cursor: &mut Cursor<'_>| cursor.sized().map(Bytes::copy_from_slice);
            let values: Result<Vec<Bytes>, _> = (0..count).map(|_| value(cursor)).collect();
            Tensor::from_strings(values?, shape).map_err(|_| no_tensor())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_tensor::DType;

    fn example() -> Signature {
        let mut bounded = TensorSpec::new("a", DType::Int16, Some(vec![None, Some(u32::MAX)]));
        bounded.bounds = Some((Tensor::scalar(-1_i16), Tensor::from_slice(&[1_i16, 2], [2]).unwrap()));
        let mut text = TensorSpec::new("", DType::String, None);
        let words = |word: &'static str| Tensor::from_strings([word, ""], [2]).unwrap();
        text.bounds = Some((words("low"), words("high")));
        let named = Nest::NamedTuple {
            name: "Step".to_owned(),
            fields: vec![("z".to_owned(), Nest::None), ("a".to_owned(), Nest::Leaf(text))],
        };
        let list = Nest::List(vec![Nest::Leaf(bounded), Nest::Tuple(Vec::new())]);
        Nest::Dict([("ü".to_owned(), named), (String::new(), list)].into())
    }

    #[test]
    fn every_kind_of_signature_node_round_trips() {
        let mut out = Vec::new();
        put_signature(&mut out, &example());
        let mut cursor = Cursor::new(&out);
        assert_eq!(signature(&mut cursor), Ok(example()));
        assert!(cursor.is_empty());
        for end in 0..out.len() {
            assert!(signature(&mut Cursor::new(&out[..end])).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn names_round_trip_without_specs() {
        let mut out = Vec::new();
        let expected = example().map(|_| ());
        put_names(&mut out, &expected);
        assert_eq!(names(&mut Cursor::new(&out)), Ok(expected));
        for end in 0..out.len() {
            assert!(names(&mut Cursor::new(&out[..end])).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn depth_and_counts_are_limited() {
        let deep = |levels: usize| [[TUPLE, 1, 0, 0, 0].repeat(levels), vec![NONE]].concat();
        assert!(signature(&mut Cursor::new(&deep(MAX_DEPTH - 1))).is_ok());
        assert_eq!(signature(&mut Cursor::new(&deep(MAX_DEPTH))), Err(Malformed::Deep { limit: MAX_DEPTH }));
        let announced = [LIST, 255, 255, 255, 255];
        assert!(matches!(signature(&mut Cursor::new(&announced)), Err(Malformed::Short { .. })));
    }
}
