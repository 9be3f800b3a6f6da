//! Our own format on disks that fail, crash and lie.

mod crashes;
mod damage;
mod failures;
mod space;
mod support;
