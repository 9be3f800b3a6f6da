#![doc = include_str!("../../../docs/clusters.md")]
