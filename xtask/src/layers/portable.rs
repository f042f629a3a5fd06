//! Code for one system stays where that system is: the client is built for macOS and Windows too, and who works on Linux would not
//! notice what keeps it from being built there.

use super::modules::Source;

/// What is there on Linux, or on systems like it, alone.
const WORDS: [&str; 7] =
    ["std::os::unix", "std::os::fd", "std::os::linux", "rustix::", "signal::unix", "UnixStream", "UnixListener"];

/// What says that something is compiled there alone, or is another file elsewhere.
const GATES: [&str; 4] =
    ["#[cfg(unix)]", "#[cfg(target_os = \"linux\")]", "#[cfg(test)]", "#[cfg_attr(not(target_os = \"linux\"), path"];

/// The places that would keep the crate from being built elsewhere. Programs of their own, as a plugin is, are for Linux.
pub(super) fn violations(sources: &[Source]) -> Vec<String> {
    let gated: Vec<String> = sources.iter().flat_map(gated_modules).collect();
    let is_gated = |file: &str| {
        let module = file.trim_end_matches(".rs");
        gated.iter().any(|gated| module == gated || module.starts_with(&format!("{gated}/")))
    };
    let shared = sources.iter().filter(|source| !is_gated(&source.file) && !source.file.starts_with("bin/"));
    let mut wrong = Vec::new();
    for source in shared {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let is_code = !line.trim_start().starts_with("//");
            let word = WORDS.iter().find(|word| is_code && line.contains(**word));
            if let Some(word) = word.filter(|_| !is_behind_gate(&lines, number)) {
                wrong.push(format!("{}:{}: {word}", source.file, number + 1));
            }
        }
    }
    wrong
}

/// The modules that a file declares for one system, as paths without an ending.
fn gated_modules(source: &Source) -> Vec<String> {
    let (folder, name) = source.file.rsplit_once('/').unwrap_or(("", &source.file));
    let own = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => source.file.trim_end_matches(".rs").to_owned(),
    };
    let lines: Vec<&str> = source.text.lines().collect();
    let declared = lines.iter().enumerate().filter_map(|(number, line)| {
        let name = line.trim().trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?;
        has_gate(&lines, number).then(|| if own.is_empty() { name.to_owned() } else { format!("{own}/{name}") })
    });
    declared.collect()
}

/// Whether a line, or what it is in, is compiled on one system alone.
fn is_behind_gate(lines: &[&str], mut number: usize) -> bool {
    loop {
        if has_gate(lines, number) {
            return true;
        }
        let depth = depth(lines[number]);
        let around = (0..number).rev().find(|above| {
            let line = lines[*above].trim();
            self::depth(lines[*above]) < depth && !line.is_empty() && !line.starts_with('#')
        });
        match around {
            Some(above) => number = above,
            None => return false,
        }
    }
}

/// Whether the attributes above a line have a gate.
fn has_gate(lines: &[&str], number: usize) -> bool {
    let above = lines[..number].iter().rev().map(|line| line.trim());
    above
        .take_while(|line| line.starts_with('#') || line.starts_with("//"))
        .any(|line| GATES.iter().any(|gate| line.starts_with(gate)))
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(file, text): &(&str, &str)| Source { file: (*file).to_owned(), text: (*text).to_owned() };
        violations(&files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn code_for_one_system_is_named_with_its_place() {
        let text = "fn a() {}\n\nfn b() {\n    rustix::fs::sync();\n}\n";
        assert_eq!(wrong(&[("a.rs", text)]), ["a.rs:4: rustix::"]);
        assert_eq!(wrong(&[("deep/mod.rs", "use std::os::unix::fs::symlink;\n")]), ["deep/mod.rs:1: std::os::unix"]);
    }

    #[test]
    fn behind_a_gate_it_is_fine() {
        for text in [
            "#[cfg(unix)]\nuse std::os::unix::fs::symlink;\n",
            "/// Says why.\n#[cfg(unix)]\n#[must_use]\nfn b() {\n    if true {\n        rustix::fs::sync();\n    }\n}\n",
            "fn b() {\n    #[cfg(unix)]\n    {\n        rustix::fs::sync();\n    }\n}\n",
            "#[cfg(test)]\nmod tests {\n    use super::*;\n\n    fn b() {\n        rustix::fs::sync();\n    }\n}\n",
            "// rustix:: is for Linux\n",
        ] {
            assert_eq!(wrong(&[("a.rs", text)]), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_module_behind_a_gate_is_fine_with_all_below_it() {
        let gate = "#[cfg(target_os = \"linux\")]\npub mod mover;\nmod other;\n";
        let code = "use rustix::fs;\n";
        let files =
            [("room/mod.rs", gate), ("room/mover/deep.rs", code), ("room/mover.rs", code), ("room/other.rs", code)];
        assert_eq!(wrong(&files), ["room/other.rs:1: rustix::"]);
        assert_eq!(wrong(&[("bin/helper.rs", code)]), [""; 0]);
    }
}
