//! Tasks that are seen on a screen of bytes, as large as those that Atari agents see.

mod catch;

pub use catch::PixelCatch;
