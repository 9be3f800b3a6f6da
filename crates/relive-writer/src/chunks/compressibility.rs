//! Whether it is worth trying to compress the chunks of a column.

/// Chunks that are stored as they are between two attempts, once attempts have failed again and again: trying costs several
/// times as much as storing, and a column whose content changes is to be noticed soon.
const MAX_PAUSE: u32 = 64;

/// Remembers whether attempts paid off. Pauses between them get longer while they do not.
#[derive(Debug, Default)]
pub(crate) struct Compressibility {
    pause: u32,
    /// Chunks left of the pause.
    left: u32,
    is_trying: bool,
}

impl Compressibility {
    /// Whether to try with the next chunk.
    pub(crate) fn tries(&mut self) -> bool {
        self.is_trying = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.is_trying
    }

    /// Takes note of whether a chunk shrank; without effect if nobody had tried.
    pub(crate) fn learn(&mut self, shrank: bool) {
        if std::mem::take(&mut self.is_trying) {
            self.pause = if shrank { 0 } else { (self.pause * 2).clamp(1, MAX_PAUSE) };
            self.left = self.pause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pays_is_tried_always_and_what_does_not_ever_less() {
        let mut compressibility = Compressibility::default();
        let mut attempts = |paid: bool, chunks: usize| -> String {
            let tried = (0..chunks).map(|_| {
                let tries = compressibility.tries();
                compressibility.learn(paid);
                if tries { 'x' } else { '.' }
            });
            tried.collect()
        };
        assert_eq!(attempts(true, 5), "xxxxx");
        assert_eq!(attempts(false, 16), "x.x..x....x.....");
        let last = attempts(false, 400);
        assert_eq!(last.rsplit('x').nth(1).map(str::len), Some(64), "pauses do not grow for ever");
        let rest = last.rsplit('x').next().map_or(0, str::len);
        assert_eq!(attempts(true, 64 - rest), ".".repeat(64 - rest));
        assert_eq!(attempts(true, 4), "xxxx", "what pays again is tried again at once");
    }
}
