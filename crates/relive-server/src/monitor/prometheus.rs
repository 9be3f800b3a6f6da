//! Prometheus' text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::{Display, Write as _};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

/// The samples of one metric, which are contiguous.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// A number in the format's notation.
pub(super) struct Value(String);

impl Page {
    /// Begins a metric that only increases until a reset. Its name ends with `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.family(name, "counter", help)
    }

    /// Begins a metric that may rise and fall.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        // Writing to a string never fails, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.text, name }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Adds the only sample.
    pub(super) fn is(&mut self, value: impl Into<Value>) {
        self.with(&[], value);
    }

    /// Adds the only sample, if there is one.
    pub(super) fn maybe(&mut self, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.is(value);
        }
    }

    /// Adds a sample with labels.
    pub(super) fn with(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        self.text.push_str(self.name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let open = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{}\"", Escaped(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {}", value.into().0);
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self(value.to_string())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self(value.to_string())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self(u8::from(value).to_string())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self(match value {
            _ if value.is_nan() => "NaN".to_owned(),
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            _ => value.to_string(),
        })
    }
}

/// The escaped value of a label.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_help_type_and_samples() {
        let mut page = Page::default();
        let mut family = page.counter("a_total", "Counts.");
        family.with(&[("table", "x"), ("kind", "b\"\\\nc")], 3_u64);
        page.gauge("b", "Goes.").is(-0.5);
        page.gauge("c", "None.").maybe(None::<u64>);
        let text = page.into_text();
        let expected = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{table=\"x\",kind=\"b\\\"\\\\\\nc\"} 3\n\
                        # HELP b Goes.\n# TYPE b gauge\nb -0.5\n\
                        # HELP c None.\n# TYPE c gauge\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn numbers_are_written_as_the_format_has_them() {
        let text = |value: f64| Value::from(value).0;
        assert_eq!([text(f64::INFINITY), text(f64::NEG_INFINITY), text(f64::NAN)], ["+Inf", "-Inf", "NaN"]);
        assert_eq!([text(2.0), text(1e300).len().to_string()], ["2", "301"]);
        assert_eq!((Value::from(u64::MAX).0, Value::from(true).0), (u64::MAX.to_string(), "1".to_owned()));
    }
}
