//! Deserialises settings. The error of an unreadable setting has its name, the given value, and the permitted ones.

use std::fmt;

use relive_rl::{Result, RlError};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    self, DeserializeOwned, Deserializer, Error as _, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// Settings from a JSON object.
///
/// # Errors
/// [`Setting`](RlError::Setting): the first unreadable setting.
pub(crate) fn read<A: DeserializeOwned>(all: &Value) -> Result<A> {
    let read = A::deserialize(Given { value: all, name: String::new() });
    read.map_err(|Refused { name, got, expected }| {
        let name = if name.is_empty() { "the agent's settings".to_owned() } else { name };
        RlError::setting(name, got, expected)
    })
}

/// A value and the path of its setting: `hidden`, `hidden[0]`, `demonstrations.ratio`; empty for the whole object.
struct Given<'de> {
    value: &'de Value,
    name: String,
}

impl<'de> Given<'de> {
    fn setting(&self, name: &str, value: &'de Value) -> Given<'de> {
        let is_top = self.name.is_empty();
        Given { value, name: if is_top { name.to_owned() } else { format!("{}.{name}", self.name) } }
    }

    fn element(&self, index: usize, value: &'de Value) -> Given<'de> {
        Given { value, name: format!("{}[{index}]", self.name) }
    }

    fn visit<V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Refused> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => visitor.visit_u64(value),
                (None, Some(value)) => visitor.visit_i64(value),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(values) => {
                let elements = values.iter().enumerate().map(|(index, value)| self.element(index, value));
                let mut elements = SeqDeserializer::new(elements);
                let read = visitor.visit_seq(&mut elements)?;
                elements.end().map(|()| read)
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.as_str(), self.setting(name, value)));
                visitor.visit_map(MapDeserializer::new(fields))
            }
        }
    }
}

impl<'de> Deserializer<'de> for Given<'de> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.visit(visitor).map_err(|refused| refused.of(&self))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        // The variants of settings have no fields.
        let read = match self.value.as_str() {
            Some(variant) => visitor.visit_enum(variant.into_deserializer()),
            None => Err(Refused::unknown_variant("", variants)),
        };
        read.map_err(|refused| refused.of(&self))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Refused> for Given<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Why a setting cannot be read. Its name and the given value are empty until a caller that knows them fills them in.
#[derive(Debug)]
struct Refused {
    name: String,
    got: String,
    expected: String,
}

impl Refused {
    fn expecting(expected: impl Into<String>) -> Refused {
        Refused { name: String::new(), got: String::new(), expected: expected.into() }
    }

    fn of(mut self, given: &Given<'_>) -> Refused {
        if self.got.is_empty() {
            (self.name, self.got) = (given.name.clone(), given.value.to_string());
        } else if self.name.is_empty() {
            let group = if given.name.is_empty() { String::new() } else { format!(" in {}", given.name) };
            self.name = format!("the name of a setting{group}");
        }
        self
    }
}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(text: T) -> Refused {
        Refused::expecting(text.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Refused {
        Refused::expecting(plain(&expected.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Refused {
        Refused::expecting(plain(&expected.to_string()))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Refused {
        Refused::expecting(plain(&expected.to_string()))
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Refused {
        Refused::expecting(format!("one of {}", variants.join(", ")))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Refused {
        Refused { got: field.to_owned(), ..Refused::expecting(format!("one of {}", known.join(", "))) }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but it must be {}", self.name, self.got, self.expected)
    }
}

impl std::error::Error for Refused {}

/// serde's expectation, in the words of the settings' documentation.
fn plain(expected: &str) -> String {
    let count = |text: &str| text.split(' ').find_map(|word| word.parse::<u32>().ok());
    match expected {
        "f32" | "f64" => "a number".to_owned(),
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, at least 0".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a string" | "path string" => "a text".to_owned(),
        _ if expected.starts_with("struct ") => "a group of named settings".to_owned(),
        _ => {
            count(expected).map_or_else(|| expected.to_owned(), |count| format!("a list of {count} numbers"))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::from_json;

    #[test]
    fn what_cannot_be_read_is_told_by_its_name_in_plain_words() {
        let refused = |settings: &str| from_json("dqn", settings).map(drop).unwrap_err().to_string();
        for (settings, told) in [
            (r#"{"learning_rate": "x"}"#, r#"learning_rate is "x", but it must be a number"#),
            (r#"{"learning_rate": {"x": 1}}"#, r#"learning_rate is {"x":1}, but it must be a number"#),
            (r#"{"batch_size": -5}"#, "batch_size is -5, but it must be a whole number, at least 0"),
            (r#"{"batch_size": 1.5}"#, "batch_size is 1.5, but it must be a whole number, at least 0"),
            (r#"{"duelling": 1}"#, "duelling is 1, but it must be true or false"),
            (r#"{"hidden": 5}"#, "hidden is 5, but it must be a list"),
            (r#"{"hidden": [8, "a"]}"#, r#"hidden[1] is "a", but it must be a whole number, at least 0"#),
            (r#"{"value_range": [1]}"#, "value_range is [1], but it must be a list of 2 numbers"),
            (r#"{"value_range": [1, 2, 3]}"#, "value_range is [1,2,3], but it must be a list of 2 numbers"),
            (r#"{"max_gradient_norm": "no"}"#, r#"max_gradient_norm is "no", but it must be a number"#),
            (r#"{"demonstrations": {"folder": 3}}"#, "demonstrations.folder is 3, but it must be a text"),
            (r#"{"demonstrations": 3}"#, "demonstrations is 3, but it must be a group of named settings"),
            (
                r#"{"demonstrations": {"share": 3}}"#,
                "the name of a setting in demonstrations is share, but it must be one of ratio, folder, episodes",
            ),
        ] {
            assert_eq!(refused(settings), told, "{settings}");
        }
        for loss in [r#"{"loss": "mse"}"#, r#"{"loss": 3}"#] {
            let told = refused(loss);
            assert!(
                told.ends_with(
                    "but it must be one of double-q, q-learning, regularized-q, munchausen, categorical, quantile, implicit-quantile"
                ),
                "{told}"
            );
        }
        let told = refused(r#"{"learning_rat": 1}"#);
        assert!(
            told.starts_with("the name of a setting is learning_rat, but it must be one of batch_size, "),
            "{told}"
        );
        assert!(refused("[1]").starts_with("the text of the settings is "));
    }
}
