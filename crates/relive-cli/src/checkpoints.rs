//! The checkpoint settings of `relive serve`: flags, and the equivalent configuration keys.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relive_engine::limits::MIN_CHECKPOINT_INTERVAL;
use relive_host::{Format, Rules};
use relive_table::CheckpointProgress;

use crate::choice;
use crate::failure::{Failure, Result};
use crate::units::parse_duration;

/// Options about checkpoints.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Checkpoints")]
pub(crate) struct Checkpoints {
    /// Folder or bucket (s3://…, gs://…, az://…) for checkpoints: the server loads the newest one at startup, and
    /// writes new ones on request, periodically, and at shutdown [default: the configuration's, else none]
    #[arg(long, value_name = "DIR|URL")]
    checkpoint_dir: Option<String>,
    /// Interval between checkpoints, as in 90s, 10m or 1h; at least 1s [default: the configuration's, else never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    checkpoint_every: Option<Duration>,
    /// How many checkpoints to keep: older ones are removed when a newer one is complete [default: the configuration's,
    /// else 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_keep: Option<u32>,
    /// Format to write; both formats can be loaded [default: the configuration's, else relive]
    #[arg(long, value_name = "FORMAT", value_parser = choice::parser::<Format>())]
    checkpoint_format: Option<Format>,
    /// Where restored tables get their rules from if the checkpoint and the configuration differ [default: the
    /// configuration's, else checkpoint]
    #[arg(long, value_name = "WHOSE", value_parser = choice::parser::<Rules>())]
    config_from: Option<Rules>,
    /// Also restore tables that the checkpoint has but the configuration does not, because clients added them, with
    /// their rules from the checkpoint
    #[arg(long)]
    checkpoint_tables: bool,
    /// Write no checkpoint when the server stops
    #[arg(long)]
    no_checkpoint_at_shutdown: bool,
    /// Load this checkpoint at startup instead of the newest one in --checkpoint-dir
    #[arg(long, value_name = "PATH|URL")]
    checkpoint: Option<String>,
    /// Load the intact part of a damaged checkpoint, and log the rest
    #[arg(long)]
    salvage: bool,
}

/// The checkpoint keys of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// `checkpoint_dir`
    pub(crate) dir: Option<String>,
    /// `checkpoint_every`
    pub(crate) every: Option<Duration>,
    /// `checkpoint_keep`
    pub(crate) keep: Option<u32>,
    /// `checkpoint_format`
    pub(crate) format: Option<Format>,
    /// `config_from`
    pub(crate) config_from: Option<Rules>,
    /// `checkpoint_at_shutdown`
    pub(crate) at_shutdown: Option<bool>,
}

impl Checkpoints {
    /// Returns the checkpoint settings of the server; flags take precedence over keys.
    pub(crate) fn settings(
        &self,
        keys: &Keys,
        progress: Arc<CheckpointProgress>,
    ) -> Result<relive_host::Checkpoints> {
        let location = self.checkpoint_dir.as_ref().or(keys.dir.as_ref());
        if location.is_none() {
            self.check_idle(keys)?;
        }
        self.check_interval(keys)?;
        let mut settings = location.map_or_else(Default::default, relive_host::Checkpoints::at);
        if let Some(place) = &self.checkpoint {
            settings = settings.load(place);
        }
        if let Some(every) = self.checkpoint_every.or(keys.every) {
            settings = settings.every(every);
        }
        if let Some(keep) = self.checkpoint_keep.or(keys.keep) {
            settings = settings.keep(usize::try_from(keep).unwrap_or(usize::MAX));
        }
        Ok(settings
            .format(self.checkpoint_format.or(keys.format).unwrap_or_default())
            .at_shutdown(!self.no_checkpoint_at_shutdown && keys.at_shutdown.unwrap_or(true))
            .rules(self.config_from.or(keys.config_from).unwrap_or_default())
            .other_tables(self.checkpoint_tables)
            .salvage(self.salvage)
            .progress(progress))
    }

    fn check_interval(&self, keys: &Keys) -> Result {
        let given = [("--checkpoint-every", self.checkpoint_every), ("checkpoint_every", keys.every)];
        match given.into_iter().find_map(|(name, every)| Some((name, every?))) {
            Some((name, every)) if every < MIN_CHECKPOINT_INTERVAL => Err(Failure::usage(format!(
                "{name} must be at least {MIN_CHECKPOINT_INTERVAL:?}, got {every:?}"
            ))),
            _ => Ok(()),
        }
    }

    /// Rejects checkpoint settings if there is no location for checkpoints.
    fn check_idle(&self, keys: &Keys) -> Result {
        let loads = self.checkpoint.is_some();
        let idle = [
            ("--checkpoint-every", self.checkpoint_every.is_some()),
            ("--checkpoint-keep", self.checkpoint_keep.is_some()),
            ("--checkpoint-format", self.checkpoint_format.is_some()),
            ("--no-checkpoint-at-shutdown", self.no_checkpoint_at_shutdown),
            ("--config-from", self.config_from.is_some() && !loads),
            ("--salvage", self.salvage && !loads),
            ("checkpoint_every", keys.every.is_some()),
            ("checkpoint_keep", keys.keep.is_some()),
            ("checkpoint_format", keys.format.is_some()),
            ("config_from", keys.config_from.is_some() && !loads),
            ("checkpoint_at_shutdown", keys.at_shutdown.is_some()),
        ];
        match idle.into_iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => Err(Failure::usage(format!(
                "{name} requires a folder for checkpoints; give --checkpoint-dir"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys {
            dir: Some("/keys".to_owned()),
            every: Some(Duration::from_secs(60)),
            keep: Some(7),
            format: Some(Format::Reverb),
            config_from: Some(Rules::Given),
            at_shutdown: Some(false),
        }
    }

    /// Returns all settings, as text.
    fn settings(flags: &Checkpoints, keys: &Keys) -> Result<String> {
        flags.settings(keys, Arc::default()).map(|settings| format!("{settings:?}"))
    }

    fn text(settings: &relive_host::Checkpoints) -> String {
        format!("{:?}", settings.clone().progress(Arc::default()))
    }

    #[test]
    fn configuration_keys_apply_unless_a_flag_overrides_them() {
        let at = relive_host::Checkpoints::at;
        let expected = at("/keys").every(Duration::from_secs(60)).keep(7).at_shutdown(false);
        let expected = expected.format(Format::Reverb).rules(Rules::Given);
        assert_eq!(settings(&Checkpoints::default(), &keys()).unwrap(), text(&expected));
        let flags = Checkpoints {
            checkpoint_dir: Some("/flags".to_owned()),
            checkpoint_every: Some(Duration::from_secs(5)),
            checkpoint_keep: Some(1),
            checkpoint_format: Some(Format::Relive),
            config_from: Some(Rules::Stored),
            ..Checkpoints::default()
        };
        let expected = at("/flags").every(Duration::from_secs(5)).keep(1).at_shutdown(false);
        assert_eq!(settings(&flags, &keys()).unwrap(), text(&expected));
    }

    #[test]
    fn without_a_folder_nothing_is_written_and_options_are_refused() {
        let none = relive_host::Checkpoints::default();
        assert_eq!(settings(&Checkpoints::default(), &Keys::default()).unwrap(), text(&none));
        let flags = Checkpoints { salvage: true, ..Checkpoints::default() };
        assert!(settings(&flags, &Keys::default()).is_err());
        let flags = Checkpoints { checkpoint: Some("c".to_owned()), ..flags };
        let expected = none.load("c").salvage(true);
        assert_eq!(settings(&flags, &Keys::default()).unwrap(), text(&expected));
        assert!(settings(&Checkpoints::default(), &Keys { keep: Some(2), ..Keys::default() }).is_err());
    }

    #[test]
    fn checkpoint_intervals_out_of_range_are_refused_with_the_value() {
        let flags = |every| Checkpoints {
            checkpoint_dir: Some("d".to_owned()),
            checkpoint_every: every,
            ..Checkpoints::default()
        };
        let refusal = |flags: Checkpoints, keys: Keys| match settings(&flags, &keys).unwrap_err() {
            Failure::Error { error, .. } => error.to_string(),
            Failure::OutputClosed => String::new(),
        };
        let short = Some(Duration::from_millis(999));
        let text = refusal(flags(short), Keys::default());
        assert_eq!(text, "--checkpoint-every must be at least 1s, got 999ms");
        let text = refusal(flags(None), Keys { every: short, ..Keys::default() });
        assert_eq!(text, "checkpoint_every must be at least 1s, got 999ms");
        let keys = Keys { every: short, ..Keys::default() };
        assert!(settings(&flags(Some(Duration::from_secs(1))), &keys).is_ok(), "the flag counts");
    }

    #[test]
    fn a_checkpoint_folder_alone_uses_the_defaults() {
        let flags = Checkpoints { checkpoint_dir: Some("d".to_owned()), ..Checkpoints::default() };
        let expected = relive_host::Checkpoints::at("d").format(Format::Relive).at_shutdown(true);
        assert_eq!(settings(&flags, &Keys::default()).unwrap(), text(&expected));
    }
}
