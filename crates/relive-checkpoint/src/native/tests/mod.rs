//! Our own format on disks that fail, crash and lie.

mod crashes;
mod damage;
mod failures;
mod hostile;
mod space;
mod support;
