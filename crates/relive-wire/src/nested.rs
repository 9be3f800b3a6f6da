//! Nests with any leaves as TensorFlow's `StructuredValue`.

use std::collections::HashMap;

use relive_tensor::Nest;

use crate::WireError;
use crate::limits::MAX_SIGNATURE_DEPTH;
use crate::tensorflow::structured_value::Kind;
use crate::tensorflow::{DictValue, ListValue, NamedTupleValue, PairValue, StructuredValue, TupleValue};

/// Converts `nest` to a message; `none` represents [`Nest::None`].
pub(crate) fn to_wire<T>(nest: &Nest<T>, leaf: &impl Fn(&T) -> Kind, none: Option<&Kind>) -> StructuredValue {
    let values = |nests: &[Nest<T>]| nests.iter().map(|nest| to_wire(nest, leaf, none)).collect();
    let kind = match nest {
        Nest::Leaf(value) => leaf(value),
        Nest::List(nests) => Kind::ListValue(ListValue { values: values(nests) }),
        Nest::Tuple(nests) => Kind::TupleValue(TupleValue { values: values(nests) }),
        Nest::Dict(fields) => {
            let fields = fields.iter().map(|(key, nest)| (key.clone(), to_wire(nest, leaf, none)));
            Kind::DictValue(DictValue { fields: fields.collect() })
        }
        Nest::NamedTuple { name, fields } => {
            let pair = |(key, nest): &(String, Nest<T>)| PairValue {
                key: key.clone(),
                value: Some(to_wire(nest, leaf, none)),
            };
            Kind::NamedTupleValue(NamedTupleValue {
                name: name.clone(),
                values: fields.iter().map(pair).collect(),
            })
        }
        Nest::None => return StructuredValue { kind: none.cloned() },
    };
    StructuredValue { kind: Some(kind) }
}

/// Parses the leaves of a message.
pub(crate) trait Leaves {
    /// The type of leaves.
    type Leaf;

    /// Parses a value that is not a container. Returns the reason if it is not a leaf.
    fn leaf(&mut self, kind: Option<&Kind>) -> Result<Nest<Self::Leaf>, String>;

    /// Returns the error for the value at `path`.
    fn error(&self, path: String, reason: String) -> WireError;
}

/// Converts `message` to a nest, not deeper than [`MAX_SIGNATURE_DEPTH`].
pub(crate) fn from_wire<L: Leaves>(
    message: &StructuredValue,
    leaves: &mut L,
) -> Result<Nest<L::Leaf>, WireError> {
    Reader { path: Vec::new(), leaves }.nest(message)
}

struct Reader<'a, L> {
    path: Vec<String>,
    leaves: &'a mut L,
}

impl<L: Leaves> Reader<'_, L> {
    fn nest(&mut self, message: &StructuredValue) -> Result<Nest<L::Leaf>, WireError> {
        if self.path.len() > MAX_SIGNATURE_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_SIGNATURE_DEPTH} levels")));
        }
        match message.kind.as_ref() {
            Some(Kind::ListValue(list)) => Ok(Nest::List(self.values(&list.values)?)),
            Some(Kind::TupleValue(tuple)) => Ok(Nest::Tuple(self.values(&tuple.values)?)),
            Some(Kind::DictValue(dict)) => self.dict(&dict.fields),
            Some(Kind::NamedTupleValue(named)) => self.named_tuple(named),
            kind => self.leaves.leaf(kind).map_err(|reason| self.error(reason)),
        }
    }

    fn values(&mut self, values: &[StructuredValue]) -> Result<Vec<Nest<L::Leaf>>, WireError> {
        values.iter().enumerate().map(|(i, value)| self.child(&i.to_string(), value)).collect()
    }

    fn dict(&mut self, fields: &HashMap<String, StructuredValue>) -> Result<Nest<L::Leaf>, WireError> {
        let read = |(key, value): (&String, &StructuredValue)| Ok((key.clone(), self.child(key, value)?));
        Ok(Nest::Dict(fields.iter().map(read).collect::<Result<_, WireError>>()?))
    }

    fn named_tuple(&mut self, named: &NamedTupleValue) -> Result<Nest<L::Leaf>, WireError> {
        let (mut fields, nothing) = (Vec::with_capacity(named.values.len()), StructuredValue::default());
        for pair in &named.values {
            let value = pair.value.as_ref().unwrap_or(&nothing);
            fields.push((pair.key.clone(), self.child(&pair.key, value)?));
        }
        Ok(Nest::NamedTuple { name: named.name.clone(), fields })
    }

    fn child(&mut self, part: &str, message: &StructuredValue) -> Result<Nest<L::Leaf>, WireError> {
        self.path.push(part.to_owned());
        let nest = self.nest(message)?;
        self.path.pop();
        Ok(nest)
    }

    fn error(&self, reason: String) -> WireError {
        self.leaves.error(self.path.join("/"), reason)
    }
}

/// Returns the name of a message's kind, for errors.
pub(crate) fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::NoneValue(_) => "none",
        Kind::Float64Value(_) => "a float",
        Kind::Int64Value(_) => "an integer",
        Kind::StringValue(_) => "a string",
        Kind::BoolValue(_) => "a bool",
        Kind::TensorShapeValue(_) => "a shape",
        Kind::TensorDtypeValue(_) => "a data type",
        Kind::TypeSpecValue(_) => "a type spec",
        Kind::TensorSpecValue(_) | Kind::BoundedTensorSpecValue(_) => "a tensor spec",
        Kind::ListValue(_) | Kind::TupleValue(_) | Kind::DictValue(_) | Kind::NamedTupleValue(_) => "a nest",
    }
}
