//! numpy's arrays and their types: conversion, reading in place, and arrays over Rust's memory.

pub(crate) mod array;
pub(crate) mod buffer;
pub(crate) mod conversion;
pub(crate) mod dtypes;
pub(crate) mod numeric_array;
