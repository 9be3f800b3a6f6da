//! What flags and keys come to together.

use std::time::Duration;

use relive_engine::limits::MIN_CHECKPOINT_INTERVAL;

use super::{Checkpoints, ConfigFrom, FormatChoice, Keys};
use crate::failure::{Failure, Result};

/// Checkpoints that are kept unless another number is asked for.
const DEFAULT_KEEP: u32 = 3;

/// What a server is to do about checkpoints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Where to write.
    pub(super) written: Option<Written>,
    /// One to load instead of the newest.
    pub(super) checkpoint: Option<String>,
    pub(super) config_from: ConfigFrom,
    pub(super) salvage: bool,
}

/// Where and when checkpoints are written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) location: String,
    pub(super) format: FormatChoice,
    pub(super) keep: u32,
    pub(super) every: Option<Duration>,
    pub(super) at_shutdown: bool,
}

impl Checkpoints {
    /// Flags count before keys.
    pub(super) fn plan(&self, keys: &Keys) -> Result<Plan> {
        let location = self.checkpoint_dir.as_ref().or(keys.dir.as_ref()).cloned();
        if location.is_none() {
            self.check_idle(keys)?;
        }
        self.check_interval(keys)?;
        let written = location.map(|location| Written {
            location,
            format: self.checkpoint_format.or(keys.format).unwrap_or_default(),
            keep: self.checkpoint_keep.or(keys.keep).unwrap_or(DEFAULT_KEEP),
            every: self.checkpoint_every.or(keys.every),
            at_shutdown: !self.no_checkpoint_at_shutdown && keys.at_shutdown.unwrap_or(true),
        });
        Ok(Plan {
            written,
            checkpoint: self.checkpoint.clone(),
            config_from: self.config_from.or(keys.config_from).unwrap_or_default(),
            salvage: self.salvage,
        })
    }

    fn check_interval(&self, keys: &Keys) -> Result {
        let given = [("--checkpoint-every", self.checkpoint_every), ("checkpoint_every", keys.every)];
        match given.into_iter().find_map(|(name, every)| Some((name, every?))) {
            Some((name, every)) if every < MIN_CHECKPOINT_INTERVAL => Err(Failure::usage(format!(
                "{name} is {every:?}, at least {MIN_CHECKPOINT_INTERVAL:?} is possible"
            ))),
            _ => Ok(()),
        }
    }

    /// What says how checkpoints are to be written or read, where there are none, is a slip.
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
                "{name} says what to do with checkpoints, and there is no folder of them; give --checkpoint-dir"
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
            format: Some(FormatChoice::Reverb),
            config_from: Some(ConfigFrom::Code),
            at_shutdown: Some(false),
        }
    }

    #[test]
    fn keys_count_unless_a_flag_says_otherwise() {
        let plan = Checkpoints::default().plan(&keys()).unwrap();
        let written = plan.written.unwrap();
        assert_eq!((written.location.as_str(), written.keep, written.at_shutdown), ("/keys", 7, false));
        assert_eq!((written.format, plan.config_from), (FormatChoice::Reverb, ConfigFrom::Code));
        let flags = Checkpoints {
            checkpoint_dir: Some("/flags".to_owned()),
            checkpoint_every: Some(Duration::from_secs(5)),
            checkpoint_keep: Some(1),
            checkpoint_format: Some(FormatChoice::Relive),
            config_from: Some(ConfigFrom::Checkpoint),
            ..Checkpoints::default()
        };
        let plan = flags.plan(&keys()).unwrap();
        let written = plan.written.unwrap();
        assert_eq!((written.location.as_str(), written.keep), ("/flags", 1));
        assert_eq!((written.every, written.format), (Some(Duration::from_secs(5)), FormatChoice::Relive));
        assert_eq!(plan.config_from, ConfigFrom::Checkpoint);
    }

    #[test]
    fn without_a_folder_nothing_is_written_and_nothing_may_be_asked_for() {
        let plan = Checkpoints::default().plan(&Keys::default()).unwrap();
        assert_eq!((plan.written, plan.checkpoint), (None, None));
        let flags = Checkpoints { salvage: true, ..Checkpoints::default() };
        assert!(flags.plan(&Keys::default()).is_err());
        let flags = Checkpoints { checkpoint: Some("c".to_owned()), ..flags };
        assert!(flags.plan(&Keys::default()).unwrap().salvage);
        assert!(Checkpoints::default().plan(&Keys { keep: Some(2), ..Keys::default() }).is_err());
    }

    #[test]
    fn checkpoints_that_come_too_often_are_refused_with_their_time() {
        let flags = |every| Checkpoints {
            checkpoint_dir: Some("d".to_owned()),
            checkpoint_every: every,
            ..Checkpoints::default()
        };
        let refusal = |flags: Checkpoints, keys: Keys| match flags.plan(&keys).unwrap_err() {
            Failure::Error { error, .. } => error.to_string(),
            Failure::OutputClosed => String::new(),
        };
        let short = Some(Duration::from_millis(999));
        let told = refusal(flags(short), Keys::default());
        assert_eq!(told, "--checkpoint-every is 999ms, at least 1s is possible");
        let told = refusal(flags(None), Keys { every: short, ..Keys::default() });
        assert_eq!(told, "checkpoint_every is 999ms, at least 1s is possible");
        let keys = Keys { every: short, ..Keys::default() };
        assert!(flags(Some(Duration::from_secs(1))).plan(&keys).is_ok(), "the flag counts");
    }

    #[test]
    fn a_folder_alone_means_three_of_our_own_and_one_at_the_end() {
        let flags = Checkpoints { checkpoint_dir: Some("d".to_owned()), ..Checkpoints::default() };
        let written = flags.plan(&Keys::default()).unwrap().written.unwrap();
        let expected = Written {
            location: "d".to_owned(),
            format: FormatChoice::Relive,
            keep: 3,
            every: None,
            at_shutdown: true,
        };
        assert_eq!(written, expected);
    }
}
