//! Tasks with observations as a screen of bytes, as large as those that Atari agents see.

mod catch;

pub use catch::PixelCatch;
