//! The kernels: their sources, the shipped PTX, and compilation on this machine.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use super::driver::{Driver, Module};
use crate::{Error, ErrorKind, Result};

/// The kernels in CUDA C, as one text. `kernels/compile.py` concatenates the same files.
pub const SOURCES: &str = concat!(
    include_str!("../../kernels/common.cuh"),
    include_str!("../../kernels/philox.cuh"),
    include_str!("../../kernels/math.cuh"),
    include_str!("../../kernels/select.cu"),
    include_str!("../../kernels/collect.cu"),
);

/// PTX with the minimum compute capability it needs, highest first.
const SHIPPED: [(u32, &str); 2] =
    [(90, include_str!("../../kernels/relive_90.ptx")), (80, include_str!("../../kernels/relive_80.ptx"))];

/// Identifies the sources from which PTX was compiled: 64-bit FNV-1a, as in `kernels/compile.py`.
#[must_use]
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |value, byte| {
        (value ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the shipped PTX for a device, if there is any.
#[must_use]
pub fn shipped(architecture: u32) -> Option<&'static str> {
    SHIPPED.iter().find(|(least, _)| *least <= architecture).map(|(_, ptx)| *ptx)
}

/// Loads the kernels: the shipped ones, or, if the device or its driver is too old for these, kernels compiled on this
/// machine. The compiled PTX is cached in `cache`.
pub(crate) fn load(driver: &dyn Driver, cache: Option<&Path>) -> Result<Module> {
    let architecture = driver.architecture();
    let refused = match shipped(architecture) {
        Some(ptx) => match driver.load(ptx) {
            Ok(module) => return Ok(module),
            Err(error) => error.to_string(),
        },
        None => {
            format!("there is no PTX for compute capability {architecture}; the lowest supported one is 80")
        }
    };
    let path = cache.map(|folder| folder.join(format!("{:016x}_{architecture}.ptx", fingerprint(SOURCES))));
    if let Some(ptx) = path.as_deref().and_then(|path| fs::read_to_string(path).ok())
        && let Ok(module) = driver.load(&ptx)
    {
        return Ok(module);
    }
    let ptx = match driver.compile(SOURCES) {
        Some(compiled) => compiled?,
        None => {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{refused}; NVRTC, which could compile the kernels, was not found; install it, or a newer driver"
                ),
            ));
        }
    };
    let module = driver.load(&ptx)?;
    if let Some(path) = path {
        keep(&path, &ptx);
    }
    Ok(module)
}

/// Returns the cache folder of compiled kernels: `RELIVE_CACHE`, or `relive` in the user's cache folder.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("RELIVE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("relive")))
        .or_else(|| set("HOME").map(|folder| folder.join(".cache/relive")))
}

/// Writes to a temporary file and renames it, so that no reader sees a partial file. If the cache cannot be written,
/// only time is lost.
fn keep(path: &Path, ptx: &str) {
    let written = path.with_extension(format!("{}.partial", process::id()));
    let folder = path.parent().unwrap_or(Path::new("."));
    let kept = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&written, ptx))
        .and_then(|()| fs::rename(&written, path));
    if kept.is_err() {
        drop(fs::remove_file(&written));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_kernels_match_their_sources() {
        for (least, ptx) in SHIPPED {
            let first = ptx.lines().next().unwrap();
            let expected = format!("// sources {:016x}", fingerprint(SOURCES));
            assert_eq!(first, expected, "the sources have changed: run `cargo xtask ptx`");
            assert!(ptx.contains(&format!(".target sm_{least}")));
        }
    }

    #[test]
    fn a_device_gets_the_newest_kernels_it_supports() {
        assert!(shipped(100).unwrap().contains(".target sm_90"));
        assert!(shipped(89).unwrap().contains(".target sm_80"));
        assert_eq!(shipped(75), None);
    }

    #[test]
    fn the_fingerprint_matches_the_published_fnv_value() {
        assert_eq!(fingerprint("foobar"), 0x8594_4171_f739_67e8);
    }
}
