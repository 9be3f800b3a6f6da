//! Tasks with screens of bytes as observations, as large as the observations of Atari agents.

mod catch;

pub use catch::PixelCatch;
