//! The modules of one crate, and the targets of paths in them.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{Path, paths};
use crate::tidy::source::{Lexeme, Source};

/// For example, `["table", "insert"]`; empty for the crate's root.
pub(super) type Module = Vec<String>;

/// The maximum length of a chain of re-exports; no chain is longer in code that compiles.
const MAX_DEPTH: usize = 16;

pub(super) struct Tree {
    modules: BTreeMap<Module, File>,
}

pub(super) struct File {
    pub(super) path: String,
    pub(super) paths: Vec<Path>,
    /// Names that the module defines.
    items: BTreeSet<String>,
}

impl Tree {
    /// Returns the modules below `root`, the folder of a `lib.rs` or `main.rs`.
    pub(super) fn read(root: &str, sources: &[Source]) -> Self {
        let mut modules = BTreeMap::new();
        for source in sources.iter().filter(|source| source.lexemes.iter().any(|lexeme| !lexeme.test)) {
            if let Some(module) = source.path.strip_prefix(root).and_then(module) {
                let (paths, items) = (paths(&source.lexemes), items(&source.lexemes));
                modules.insert(module, File { path: source.path.clone(), paths, items });
            }
        }
        Self { modules }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&Module, &File)> {
        self.modules.iter()
    }

    pub(super) fn file(&self, module: &[String]) -> &File {
        &self.modules[module]
    }

    /// Returns the module whose code `path` in `from` refers to; `None` if it is outside the crate.
    pub(super) fn target(&self, from: &Module, path: &Path) -> Option<Module> {
        self.resolve(from, &path.segments, 0).map(|place| place.module)
    }

    fn resolve(&self, from: &[String], segments: &[String], depth: usize) -> Option<Place> {
        let (first, rest) = segments.split_first()?;
        let begin = match first.as_str() {
            "crate" => Module::new(),
            "self" => from.to_vec(),
            "super" => from.split_last()?.1.to_vec(),
            name => return self.step(from, name, depth).and_then(|place| self.walk(place, rest, depth)),
        };
        self.walk(Place { module: begin, is_module: true }, rest, depth)
    }

    fn walk(&self, mut place: Place, segments: &[String], depth: usize) -> Option<Place> {
        for segment in segments {
            if !place.is_module {
                break; // an associated item, or a variant
            }
            if segment == "super" {
                place.module.pop()?;
            } else {
                place = self.step(&place.module, segment, depth)?;
            }
        }
        Some(place)
    }

    /// Returns the meaning of `name` in `module`: a module below it, a definition, or an import.
    fn step(&self, module: &[String], name: &str, depth: usize) -> Option<Place> {
        let child = [module, &[name.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            return Some(Place { module: child, is_module: true });
        }
        let file = self.modules.get(module)?;
        if file.items.contains(name) {
            return Some(Place { module: module.to_vec(), is_module: false });
        }
        if depth == MAX_DEPTH {
            return None;
        }
        let imported = file.imports(name).find_map(|path| self.resolve(module, &path.segments, depth + 1));
        imported
            .or_else(|| file.imports("*").find_map(|path| self.step_into_all(module, path, name, depth + 1)))
    }

    /// Returns the meaning of `name` in a module that `path` glob-imports.
    fn step_into_all(&self, module: &[String], path: &Path, name: &str, depth: usize) -> Option<Place> {
        let all = self.resolve(module, &path.segments, depth).filter(|place| place.is_module)?;
        (all.module != module).then(|| self.step(&all.module, name, depth)).flatten()
    }
}

impl File {
    fn imports<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Path> {
        self.paths.iter().filter(move |path| path.name.as_deref() == Some(name))
    }
}

struct Place {
    module: Module,
    /// Otherwise, the name is an item that the module defines.
    is_module: bool,
}

/// `table/insert.rs` and `table/insert/mod.rs` are `table::insert`.
fn module(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let mut module: Module = path.split('/').map(str::to_owned).collect();
    if matches!(module.last()?.as_str(), "mod" | "lib" | "main") {
        module.pop();
    }
    Some(module)
}

fn items(lexemes: &[Lexeme]) -> BTreeSet<String> {
    const KINDS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"];
    let mut items: BTreeSet<String> = lexemes
        .windows(2)
        .filter(|run| !run[0].test && KINDS.contains(&run[0].text.as_str()))
        .map(|run| run[1].text.clone())
        .collect();
    let macros = lexemes.windows(3).filter(|run| run[0].text == "macro_rules" && !run[0].test);
    items.extend(macros.map(|run| run[2].text.clone()));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let files = [
            ("src/lib.rs", "mod a; mod b; pub use b::Deep;"),
            (
                "src/a.rs",
                "use crate::Deep; use super::b::c; fn f() { c::g(); Deep::new(); std::mem::drop(1); }",
            ),
            ("src/b/mod.rs", "mod c; mod d; pub(crate) use c::*;"),
            ("src/b/c.rs", "pub struct Deep; pub fn g() {}"),
            ("src/b/d.rs", "fn h(deep: super::Deep) {}"),
        ];
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::parse(path, text).unwrap()).collect();
        Tree::read("src/", &sources)
    }

    #[test]
    fn re_exports_lead_to_where_the_item_is_defined() {
        let tree = tree();
        let targets = |module: &[&str]| -> Vec<String> {
            let module: Module = module.iter().map(ToString::to_string).collect();
            let file = tree.file(&module);
            file.paths.iter().filter_map(|path| tree.target(&module, path)).map(|to| to.join("::")).collect()
        };
        assert_eq!(targets(&["a"]), ["b::c", "b::c", "b::c", "b::c"]);
        assert_eq!(targets(&["b", "d"]), ["b::c"]);
    }
}
