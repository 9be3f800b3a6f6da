//! Tests of Relive's own format on disks that fail, crash, or lose and corrupt data.

#[cfg(feature = "object-storage")]
mod buckets;
mod crashes;
mod damage;
mod failures;
mod hostile;
mod space;
mod support;
