//! Which module of a crate uses which: whether that goes in circles, or from one room up to another.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{Path, paths};

/// A source file of a crate: its path below `src`, and its text.
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
}

/// One module uses another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) user: String,
    pub(super) used: String,
    file: String,
    line: usize,
}

/// The modules of a crate, and who uses whom.
pub(super) struct Modules {
    names: BTreeSet<String>,
    edges: Vec<Edge>,
}

/// What a module hands on: the names, and the paths they stand for.
type HandedOn = BTreeMap<(String, String), Vec<String>>;

impl Modules {
    /// Reads the modules of a crate.
    pub(super) fn read(sources: &[Source]) -> Self {
        let names: BTreeSet<String> = sources.iter().map(|source| module_of(&source.file)).collect();
        let read: Vec<(&Source, String, Vec<Path>)> =
            sources.iter().map(|source| (source, module_of(&source.file), paths(&source.text))).collect();
        let mut handed_on = HandedOn::new();
        for (_, module, paths) in &read {
            for path in paths {
                if let (Some(name), Some(full)) = (&path.handed_on_as, absolute(module, &path.parts, &names)) {
                    handed_on.insert((module.clone(), name.clone()), full);
                }
            }
        }
        let mut edges = Vec::new();
        for (source, module, paths) in read {
            for path in paths {
                let Some(full) = absolute(&module, &path.parts, &names) else { continue };
                let used = resolve(full, &names, &handed_on);
                let is_own_child = path.handed_on_as.is_some() && used.starts_with(&format!("{module}::"));
                if used != module && !used.is_empty() && !module.is_empty() && !is_own_child {
                    edges.push(Edge { user: module.clone(), used, file: source.file.clone(), line: path.line });
                }
            }
        }
        Self { names, edges }
    }

    /// How many modules there are besides the root.
    pub(super) fn count(&self) -> usize {
        self.names.iter().filter(|name| !name.is_empty()).count()
    }

    /// The groups of modules that use each other in a circle.
    pub(super) fn circles(&self) -> Vec<BTreeSet<String>> {
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            self.names.iter().map(|name| (name, self.reached_from(name))).collect();
        let mut circles: Vec<BTreeSet<String>> = Vec::new();
        for (name, others) in &reached {
            let circle: BTreeSet<String> =
                others.iter().filter(|other| reached[**other].contains(*name)).map(|other| (*other).clone()).collect();
            if !circle.is_empty() && !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }

    /// All modules that a module uses, and those that they use.
    fn reached_from(&self, name: &String) -> BTreeSet<&String> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![name];
        while let Some(user) = waiting.pop() {
            for edge in self.edges.iter().filter(|edge| edge.user == *user) {
                if reached.insert(&edge.used) {
                    waiting.push(&edge.used);
                }
            }
        }
        reached
    }

    /// What is wrong: edges between rooms that point up, and circles. The rooms come top first.
    pub(super) fn violations(&self, rooms: &[&str]) -> Vec<String> {
        let place = |module: &str| {
            let room = module.split("::").next().unwrap_or_default();
            (room.to_owned(), rooms.iter().position(|known| *known == room))
        };
        let unknown = self.names.iter().filter(|name| !name.is_empty()).map(|name| place(name));
        let unknown: BTreeSet<String> = unknown.filter(|(_, at)| at.is_none()).map(|(room, _)| room).collect();
        let mut wrong: Vec<String> =
            unknown.into_iter().map(|room| format!("{room} has no place among the rooms")).collect();
        for Edge { user, used, file, line } in &self.edges {
            let ((room, above), (other, below)) = (place(user), place(used));
            if above.zip(below).is_some_and(|(above, below)| above > below) {
                wrong.push(format!("{file}:{line}: {room} may not use {other} ({used})"));
            }
        }
        for circle in self.circles() {
            wrong.push(self.describe(&circle));
        }
        wrong
    }

    /// A circle, with one place for each step in it.
    pub(super) fn describe(&self, circle: &BTreeSet<String>) -> String {
        let inside = self.edges.iter().filter(|edge| circle.contains(&edge.user) && circle.contains(&edge.used));
        let steps: BTreeMap<(&String, &String), String> = inside
            .map(|edge| ((&edge.user, &edge.used), format!("{}:{}: uses {}", edge.file, edge.line, edge.used)))
            .collect();
        let names: Vec<&str> = circle.iter().map(String::as_str).collect();
        let steps: Vec<String> = steps.into_values().collect();
        format!("{} use each other:\n    {}", names.join(", "), steps.join("\n    "))
    }
}

/// The module that a file holds; the root has no name.
fn module_of(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") }
}

/// A path from the root of the crate; `None` when it leads elsewhere.
fn absolute(module: &str, parts: &[String], names: &BTreeSet<String>) -> Option<Vec<String>> {
    let mut here: Vec<String> = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let mut rest = parts;
    match rest.first().map(String::as_str)? {
        "crate" => {
            here.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                here.pop()?;
                rest = &rest[1..];
            }
        }
        child => {
            let own = if module.is_empty() { child.to_owned() } else { format!("{module}::{child}") };
            names.contains(&own).then_some(())?;
        }
    }
    here.extend(rest.iter().cloned());
    Some(here)
}

/// The module that a path leads to, through those that hand it on.
fn resolve(mut path: Vec<String>, names: &BTreeSet<String>, handed_on: &HandedOn) -> String {
    // Two modules may hand on each other's names.
    for _ in 0..8 {
        let mut length = path.len();
        while !names.contains(&path[..length].join("::")) && length > 0 {
            length -= 1;
        }
        let module = path[..length].join("::");
        let Some(item) = path.get(length) else { return module };
        match handed_on.get(&(module.clone(), item.clone())) {
            Some(further) => path = [further.as_slice(), &path[length + 1..]].concat(),
            None => return module,
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMS: &[&str] = &["top", "middle", "low"];

    fn modules(files: &[(&str, &str)]) -> Modules {
        let source = |(file, text): &(&str, &str)| Source { file: (*file).to_owned(), text: (*text).to_owned() };
        Modules::read(&files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn a_file_is_a_module() {
        let table = [
            ("lib.rs", ""),
            ("a.rs", "a"),
            ("a/mod.rs", "a"),
            ("a/b.rs", "a::b"),
            ("a/b/mod.rs", "a::b"),
            ("main.rs", ""),
        ];
        for (file, module) in table {
            assert_eq!(module_of(file), module, "{file}");
        }
    }

    #[test]
    fn an_edge_leads_to_the_module_that_has_the_item() {
        let table: &[(&str, &str)] = &[
            ("use crate::low::a::Thing;", "low::a"),
            ("use crate::low::Thing;", "low::a"),
            ("use crate::low::Renamed;", "low::a"),
            ("use crate::low::own;", "low"),
            ("use super::super::low::a::{self, Thing};", "low::a"),
            ("fn f() { crate::low::a::go() }", "low::a"),
            ("use super::b::X;", "top::b"),
        ];
        for (text, expected) in table {
            let found = modules(&[
                ("lib.rs", "mod top; mod low;"),
                ("top/mod.rs", ""),
                ("top/a.rs", text),
                ("top/b.rs", ""),
                ("low/mod.rs", "mod a;\npub(crate) use a::{Thing, Other as Renamed};\npub(crate) fn own() {}"),
                ("low/a.rs", ""),
            ]);
            let used: BTreeSet<&str> = found.edges.iter().map(|edge| edge.used.as_str()).collect();
            assert_eq!(used, [*expected].into(), "{text}");
            assert_eq!(found.edges[0].user, "top::a");
        }
    }

    #[test]
    fn what_points_up_or_in_a_circle_is_named_with_its_place() {
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
        let table: &[Row<'_>] = &[
            (&[("top.rs", "use crate::low::x;"), ("low.rs", ""), ("middle.rs", "use crate::low::x;")], &[]),
            (&[("top.rs", ""), ("low.rs", "\nuse crate::top::x;")], &["low.rs:2: low may not use top (top)"]),
            (
                &[("low/mod.rs", ""), ("low/a.rs", "use super::b::x;"), ("low/b.rs", "use crate::low::a::x;")],
                &["low::a, low::b use each other:\n    low/a.rs:1: uses low::b\n    low/b.rs:1: uses low::a"],
            ),
            (
                &[("low/mod.rs", "mod a; struct S; fn f() { a::go() }"), ("low/a.rs", "use super::S;")],
                &["low, low::a use each other:\n    low/mod.rs:1: uses low::a\n    low/a.rs:1: uses low"],
            ),
            (&[("cellar.rs", "")], &["cellar has no place among the rooms"]),
        ];
        for (files, expected) in table {
            assert_eq!(modules(files).violations(ROOMS), *expected, "{files:?}");
        }
    }

    #[test]
    fn a_parent_that_only_hands_on_is_in_no_circle() {
        let found = modules(&[
            ("low/mod.rs", "mod a;\nmod b;\npub(crate) use a::A;\npub(crate) use b::B;"),
            ("low/a.rs", "use super::B;"),
            ("low/b.rs", ""),
        ]);
        assert!(found.circles().is_empty());
        assert_eq!(found.count(), 3);
    }
}
