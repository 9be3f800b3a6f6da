//! Limits the contents of `lib.rs` and `mod.rs`.

use anyhow::{Context, Result};
use syn::{Item, Visibility};

use super::finding::Finding;

pub(super) fn check(texts: &[(String, String)]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| is_root(path)) {
        let file = syn::parse_file(text).with_context(|| format!("{path} is not Rust"))?;
        if file.items.iter().any(|item| !is_part_of_a_map(item)) {
            let reason = "holds more than docs, `mod` and `pub use`: it is the map of its folder, and code on a map \
                          is not found by its name";
            findings.push(Finding::new(path, reason));
        }
    }
    Ok(findings)
}

/// In folders of tests, `common/mod.rs` prevents Cargo from treating a shared file as a test.
fn is_root(path: &str) -> bool {
    (path.ends_with("/lib.rs") || path.ends_with("/mod.rs")) && !path.split('/').any(|part| part == "tests")
}

fn is_part_of_a_map(item: &Item) -> bool {
    match item {
        Item::Mod(module) => module.content.is_none(),
        Item::Use(import) => !matches!(import.vis, Visibility::Inherited),
        // Checks whether the crate can be built at all.
        Item::Macro(item) => item.mac.path.is_ident("compile_error"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&[(path.to_owned(), text.to_owned())]).unwrap().len()
    }

    #[test]
    fn a_module_map_is_accepted() {
        let text = "//! Docs.\n#![forbid(unsafe_code)]\n#[cfg(test)]\nmod a;\npub mod b;\npub(crate) use a::A;\n\
            #[cfg(windows)]\ncompile_error!(\"no\");";
        assert_eq!(found("src/lib.rs", text), 0);
    }

    #[test]
    fn code_in_a_module_map_is_found() {
        for text in ["fn f() {}", "use std::fmt;", "mod a { fn f() {} }", "const A: u8 = 1;"] {
            assert_eq!(found("src/a/mod.rs", text), 1, "{text}");
            assert_eq!(found("src/a.rs", text), 0, "{text}");
            assert_eq!(found("crates/a/tests/common/mod.rs", text), 0, "{text}");
        }
    }
}
