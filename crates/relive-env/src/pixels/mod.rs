//! Tasks whose observations are screens of bytes, as large as the observations of Atari agents.

mod catch;

pub use catch::PixelCatch;
