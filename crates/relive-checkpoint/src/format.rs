//! The formats of checkpoints.

use std::fmt;
use std::str::FromStr;

/// A format of checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Relive's own format (`docs/checkpoint-format.md`): chunks are written once and shared by successive checkpoints.
    #[default]
    Relive,
    /// dm-reverb's format: every checkpoint is a self-contained folder.
    Reverb,
}

impl Format {
    /// Returns the format's name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relive => "relive",
            Self::Reverb => "reverb",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Relive, Self::Reverb]
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| format!("{text:?} is not a checkpoint format; the formats are relive and reverb"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        for format in [Format::Relive, Format::Reverb] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("other".parse::<Format>().unwrap_err().contains("relive and reverb"));
    }
}
