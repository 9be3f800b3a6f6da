//! Which observations are images, and warnings about images that networks read as plain numbers.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use relive_env::ArraySpec;
use relive_rl::{Features, Result, is_image, looks_like_small_image};
use relive_tensor::{DType, Nest};

/// The minimum height and width of an image. The convolutions reduce an image of this size to one pixel.
pub(crate) const LEAST: usize = 36;

/// Returns the height, the width and the number of channels if observations are one image.
pub(crate) fn picture(observations: &Nest<ArraySpec>) -> Option<[usize; 3]> {
    let Nest::Leaf(leaf) = observations else { return None };
    let [height, width, channels] = match *sides(leaf)?.as_slice() {
        [height, width] if is_image(leaf) => [height, width, 1],
        [height, width, channels] => [height, width, channels],
        _ => return None,
    };
    let is_picture = leaf.dtype == DType::UInt8 && channels > 0 && height >= LEAST && width >= LEAST;
    is_picture.then_some([height, width, channels])
}

/// Returns observations as the numbers of all their leaves. Warns if some look like images.
///
/// # Errors
/// Observations that are not numbers.
pub(crate) fn plain_numbers(observations: &Nest<ArraySpec>) -> Result<Features> {
    for (path, leaf) in observations.flatten_with_paths() {
        let path = path.to_string();
        let place = if path.is_empty() { String::new() } else { format!(" at `{path}`") };
        if let Some(advice) = advice(leaf) {
            warn_once(&format!("observations of the shape {}{place} {advice}", leaf.shape.display_numpy()));
        }
    }
    Features::of_observations(observations)
}

/// Returns the rest of the warning about an array that is read as plain numbers.
fn advice(leaf: &ArraySpec) -> Option<String> {
    let sides = sides(leaf)?;
    let long = sides.iter().filter(|side| **side >= LEAST).count();
    if let ([height, ..], DType::UInt8, 3) = (sides.as_slice(), leaf.dtype, sides.len())
        && *height < LEAST
        && long == 2
    {
        let advice = "look like images with the channels first, which are read as plain numbers; move the channels \
                      last, so that the network has convolutions";
        return Some(advice.to_owned());
    }
    if long >= 2 && (sides.len() >= 3 || is_image(leaf)) {
        return Some(format!(
            "look like images, but this agent's network reads them as plain numbers; DQN and its variants, R2D2, IMPALA \
             and APPO have convolutions if the observations are one array of bytes (uint8), [height, width, channels], \
             of at least {LEAST} x {LEAST}"
        ));
    }
    looks_like_small_image(leaf).then(|| {
        format!(
            "are bytes, which are read as numbers from 0 to 255, because they are smaller than {LEAST} x {LEAST}: if \
             they are images, divide them by 255 in the environment (as float32), because networks learn badly from \
             large numbers"
        )
    })
}

fn sides(leaf: &ArraySpec) -> Option<Vec<usize>> {
    leaf.shape.dims().iter().map(|dim| usize::try_from(*dim).ok()).collect()
}

/// The warnings that this process has logged, since a run creates many networks.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn warn_once(text: &str) {
    let is_new = TOLD.lock().insert(text.to_owned());
    if is_new {
        tracing::warn!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(dtype: DType, dims: &[u32]) -> Nest<ArraySpec> {
        Nest::Leaf(ArraySpec::new("", dtype, dims))
    }

    fn warned(observations: &Nest<ArraySpec>) -> String {
        relive_testkit::logs::warnings(|| drop(plain_numbers(observations))).concat()
    }

    #[test]
    fn images_that_are_read_as_numbers_are_warned_about_once() {
        let pixels = || Nest::dict([("pixels", leaf(DType::UInt8, &[85, 84, 3]))]);
        let text = warned(&pixels());
        assert!(
            text.contains("shape (85, 84, 3) at `pixels` look like images") && text.contains("plain numbers"),
            "{text}"
        );
        assert_eq!(warned(&pixels()), "");
        for (dtype, dims, expected) in [
            (DType::Float32, &[85, 84, 3][..], "look like images, but"),
            (DType::UInt8, &[85, 84, 3, 4], "look like images, but"),
            (DType::UInt8, &[4, 85, 84], "with the channels first"),
            (DType::UInt8, &[4, 86, 84], "with the channels first"),
            (DType::UInt8, &[10, 11, 3], "read as numbers from 0 to 255"),
            (DType::Float32, &[85, 84], ""),
            (DType::Float32, &[7], ""),
        ] {
            let text = warned(&leaf(dtype, dims));
            assert_eq!(text.is_empty(), expected.is_empty(), "{dims:?}: {text}");
            assert!(text.contains(expected), "{dims:?}: {text}");
        }
    }
}
