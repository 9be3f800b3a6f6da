#![doc = include_str!("../../../docs/flow.md")]
