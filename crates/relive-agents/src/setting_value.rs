//! Deserializes settings. The error of an unreadable setting contains its name, the given value, and the permitted
//! values.

use std::fmt;

use relive_rl::{Result, RlError};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    self, DeserializeOwned, Deserializer, Error as _, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// Reads settings from a JSON object.
///
/// # Errors
/// [`Setting`](RlError::Setting): the first unreadable setting.
pub(crate) fn read<A: DeserializeOwned>(all: &Value) -> Result<A> {
    let read = A::deserialize(SettingValue { value: all, name: String::new() });
    read.map_err(|SettingError { name, got, expected }| {
        let name = if name.is_empty() { "the agent's settings".to_owned() } else { name };
        RlError::setting(name, got, expected)
    })
}

/// A value and the path of its setting: `hidden`, `hidden[0]`, `demonstrations.ratio`; empty for the whole object.
struct SettingValue<'de> {
    value: &'de Value,
    name: String,
}

impl<'de> SettingValue<'de> {
    fn setting(&self, name: &str, value: &'de Value) -> SettingValue<'de> {
        let is_top = self.name.is_empty();
        SettingValue { value, name: if is_top { name.to_owned() } else { format!("{}.{name}", self.name) } }
    }

    fn element(&self, index: usize, value: &'de Value) -> SettingValue<'de> {
        SettingValue { value, name: format!("{}[{index}]", self.name) }
    }

    fn visit<V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, SettingError> {
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

impl<'de> Deserializer<'de> for SettingValue<'de> {
    type Error = SettingError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        self.visit(visitor).map_err(|refused| refused.of(&self))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingError> {
        // The variants of settings have no fields.
        let read = match self.value.as_str() {
            Some(variant) => visitor.visit_enum(variant.into_deserializer()),
            None => Err(SettingError::unknown_variant("", variants)),
        };
        read.map_err(|refused| refused.of(&self))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, SettingError> for SettingValue<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The reason why a setting cannot be read. The setting's name and the given value are empty until a caller fills them
/// in.
#[derive(Debug)]
struct SettingError {
    name: String,
    got: String,
    expected: String,
}

impl SettingError {
    fn expecting(expected: impl Into<String>) -> SettingError {
        SettingError { name: String::new(), got: String::new(), expected: expected.into() }
    }

    fn of(mut self, given: &SettingValue<'_>) -> SettingError {
        if self.got.is_empty() {
            (self.name, self.got) = (given.name.clone(), given.value.to_string());
        } else if self.name.is_empty() {
            let group = if given.name.is_empty() { String::new() } else { format!(" in {}", given.name) };
            self.name = format!("the name of a setting{group}");
        }
        self
    }
}

impl de::Error for SettingError {
    fn custom<T: fmt::Display>(text: T) -> SettingError {
        SettingError::expecting(text.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> SettingError {
        SettingError::expecting(plain(&expected.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> SettingError {
        SettingError::expecting(plain(&expected.to_string()))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> SettingError {
        SettingError::expecting(plain(&expected.to_string()))
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> SettingError {
        SettingError::expecting(format!("one of {}", variants.join(", ")))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> SettingError {
        SettingError {
            got: field.to_owned(),
            ..SettingError::expecting(format!("one of {}", known.join(", ")))
        }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but it must be {}", self.name, self.got, self.expected)
    }
}

impl std::error::Error for SettingError {}

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
    fn unreadable_settings_are_reported_by_name() {
        let refused = |settings: &str| from_json("dqn", settings).map(drop).unwrap_err().to_string();
        for (settings, text) in [
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
            assert_eq!(refused(settings), text, "{settings}");
        }
        for loss in [r#"{"loss": "mse"}"#, r#"{"loss": 3}"#] {
            let text = refused(loss);
            assert!(
                text.ends_with(
                    "but it must be one of double-q, q-learning, regularized-q, munchausen, categorical, quantile, implicit-quantile"
                ),
                "{text}"
            );
        }
        let text = refused(r#"{"learning_rat": 1}"#);
        assert!(
            text.starts_with("the name of a setting is learning_rat, but it must be one of batch_size, "),
            "{text}"
        );
        assert!(refused("[1]").starts_with("the text of the settings is "));
    }
}
