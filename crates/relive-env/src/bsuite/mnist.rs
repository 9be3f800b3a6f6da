//! Handwritten digits as a bandit, from files that the user provides.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use relive_tensor::DType;

use super::Totals;
use crate::error::{EnvError, Mismatch};
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// The environment variable that contains the path of the folder with the files.
const VARIABLE: &str = "RELIVE_MNIST";
/// The unpacked MNIST files (IDX, big endian), and their magic numbers.
const IMAGES: (&str, u32) = ("train-images-idx3-ubyte", 0x0803);
const LABELS: (&str, u32) = ("train-labels-idx1-ubyte", 0x0801);
/// The number of pixels per side.
const SIDE: u32 = 28;
const PIXELS: usize = (SIDE * SIDE) as usize;
const DIGITS: u32 = 10;

/// Shows an image of a digit. Naming the digit earns 1, and any other answer earns −1. An episode has one step.
///
/// Observations are `[28, 28]`. As in bsuite, pixels of 128 or more are negative, because bytes are read as signed and
/// divided by 255.
pub type Mnist = Native<MnistTask>;

/// The task of [`Mnist`].
#[derive(Clone, Debug)]
pub struct MnistTask {
    digits: Arc<Digits>,
    rng: RandomState,
    label: u32,
    total_regret: f64,
}

/// Images with their labels.
#[derive(Debug)]
struct Digits {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Mnist {
    /// Loads the images of the training set from a folder with `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`.
    ///
    /// # Errors
    /// [`EnvError::Setting`] with the name of the file if it cannot be read or is not an MNIST file.
    pub fn new(folder: &Path, seed: u32) -> Result<Self, EnvError> {
        let (digits, rng) = (Digits::shared(folder)?, RandomState::new(seed));
        Ok(Self::from(MnistTask { digits, rng, label: 0, total_regret: 0.0 }))
    }

    /// Loads images from the folder given by the environment variable `RELIVE_MNIST`.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), or an error if the variable is not set.
    pub(super) fn of_variable(seed: u32) -> Result<Self, EnvError> {
        match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(folder) => Self::new(Path::new(&folder), seed),
            None => {
                let (expected, actual) = (
                    "a folder with MNIST's unpacked training set",
                    "an environment variable that is not set",
                );
                Err(EnvError::Setting(Mismatch::boxed(VARIABLE, expected, actual)))
            }
        }
    }
}

/// The folders whose images have been loaded. Environments share the images, which take 47 MB.
static READ: Mutex<Vec<(PathBuf, Weak<Digits>)>> = Mutex::new(Vec::new());

impl Digits {
    fn shared(folder: &Path) -> Result<Arc<Digits>, EnvError> {
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|(_, digits)| digits.strong_count() > 0);
        let known = read.iter().find(|(path, _)| path == folder);
        if let Some(digits) = known.and_then(|(_, digits)| digits.upgrade()) {
            return Ok(digits);
        }
        let digits = Arc::new(Self::read(folder)?);
        read.push((folder.to_owned(), Arc::downgrade(&digits)));
        Ok(digits)
    }

    fn read(folder: &Path) -> Result<Digits, EnvError> {
        let pixels = content(&folder.join(IMAGES.0), IMAGES.1, &[SIDE, SIDE])?;
        let path = folder.join(LABELS.0);
        let labels = content(&path, LABELS.1, &[])?;
        let images = pixels.len() / PIXELS;
        if labels.len() != images {
            return Err(refused(&path, format_args!("{images} labels, the number of images"), labels.len()));
        }
        if let Some(label) = labels.iter().find(|label| u32::from(**label) >= DIGITS) {
            return Err(refused(&path, "labels below 10", label));
        }
        Ok(Digits { pixels, labels })
    }
}

/// Returns the bytes after the header of a file whose rows have this shape. The header is the magic number, the number
/// of rows, and the shape, each as 32 bits.
fn content(path: &Path, magic: u32, shape: &[u32]) -> Result<Vec<u8>, EnvError> {
    let bytes = std::fs::read(path).map_err(|error| refused(path, "an unpacked MNIST file", error))?;
    let number = |at: usize| bytes.get(4 * at..4 * at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let found = number(0);
    if found != Some(magic) {
        let actual = found.map_or("a shorter file".to_owned(), |found| format!("{found:#06x}"));
        return Err(refused(path, format_args!("a file that starts with {magic:#06x}"), actual));
    }
    let is_shape = shape.iter().enumerate().all(|(at, size)| number(2 + at) == Some(*size));
    let row: u64 = shape.iter().map(|size| u64::from(*size)).product();
    let (expected, begin) = (number(1).map_or(0, |rows| u64::from(rows) * row), 8 + 4 * shape.len());
    let content = bytes.get(begin..).unwrap_or_default();
    if !is_shape || content.is_empty() || content.len() as u64 != expected {
        let wanted =
            format_args!("a header, and at least one row of {row} bytes, as many as the header says");
        return Err(refused(path, wanted, format_args!("{} bytes", bytes.len())));
    }
    Ok(content.to_vec())
}

fn refused(path: &Path, expected: impl Display, actual: impl Display) -> EnvError {
    EnvError::Setting(Mismatch::boxed(path.display(), expected, actual))
}

impl Task for MnistTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [SIDE, SIDE])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", DIGITS)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        let Self { digits, rng, label, .. } = self;
        let count = i64::try_from(digits.labels.len()).unwrap_or(i64::MAX);
        let drawn = usize::try_from(rng.randint(0, count)).unwrap_or(0);
        *label = digits.labels.get(drawn).copied().map_or(0, u32::from);
        let image = digits.pixels.chunks_exact(PIXELS).nth(drawn).unwrap_or_default();
        for (pixel, byte) in observation.iter_mut().zip(image) {
            *pixel = f32::from(byte.cast_signed()) / 255.0;
        }
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        let reward = if action == self.label { 1.0 } else { -1.0 };
        self.total_regret += 1.0 - reward;
        observation.fill(0.0);
        TimeStep::termination(reward)
    }

    fn state(&mut self, state: &mut State<'_>) {
        self.rng.state(state);
        state.field(&mut self.label);
        state.field(&mut self.total_regret);
    }
}

impl Totals for MnistTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("total_regret", self.total_regret)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Buffer, Environment, conformance};

    /// Returns a folder with images of the given three digits; all pixels of the images are 0, 127 and 128,
    /// respectively.
    fn files(name: &str, labels: &[u8]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("relive-mnist-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let numbers =
            |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
        let pixels = [0, 127, 128].map(|byte| vec![byte; PIXELS]).concat();
        let (images, count) = (numbers(&[IMAGES.1, 3, 28, 28]), u32::try_from(labels.len()).unwrap());
        std::fs::write(folder.join(IMAGES.0), [images, pixels].concat()).unwrap();
        std::fs::write(folder.join(LABELS.0), [numbers(&[LABELS.1, count]), labels.to_vec()].concat())
            .unwrap();
        folder
    }

    #[test]
    fn the_shown_digit_is_rewarded() {
        let folder = files("pays", &[4, 0, 9]);
        conformance::check(|seed| Mnist::new(&folder, u32::try_from(seed).unwrap()).unwrap()).unwrap();
        let mut environment = Mnist::new(&folder, 3).unwrap();
        let mut seen = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
        // numpy: RandomState(3).randint(3), six times.
        for drawn in [2, 0, 1, 0, 0, 0] {
            environment.reset(seen.row_mut(0)).unwrap();
            let pixel = [0.0, 127.0 / 255.0, -128.0 / 255.0][drawn];
            assert_eq!(seen.row(0).leaf::<f32>(0).unwrap(), [pixel; PIXELS]);
            let step = environment.step(Action::Discrete([4, 0, 9][drawn]), seen.row_mut(0)).unwrap();
            assert_eq!((step.reward, step.last()), (1.0, true));
        }
        environment.reset(seen.row_mut(0)).unwrap();
        assert_eq!(environment.step(Action::Discrete(5), seen.row_mut(0)).unwrap().reward, -1.0);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_that_are_not_mnist_are_named() {
        let error_of = |folder: &Path| Mnist::new(folder, 1).unwrap_err().to_string();
        assert!(error_of(Path::new("/nowhere")).contains("/nowhere/train-images-idx3-ubyte"));
        let folder = files("labels", &[1, 2]);
        assert!(error_of(&folder).contains("3 labels, the number of images"), "{}", error_of(&folder));
        let folder = files("labels", &[1, 2, 10]);
        assert!(error_of(&folder).contains("labels below 10, got 10"), "{}", error_of(&folder));
        std::fs::write(folder.join(IMAGES.0), [0x1f, 0x8b, 8, 0]).unwrap();
        assert!(error_of(&folder).contains("starts with 0x0803"), "{}", error_of(&folder));
        std::fs::write(folder.join(IMAGES.0), [0, 0, 8, 3, 0, 0, 0, 9]).unwrap();
        assert!(error_of(&folder).contains("row of 784 bytes"), "{}", error_of(&folder));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
