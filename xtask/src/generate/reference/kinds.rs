//! Kinds and their fields, from the definitions.

use serde_json::Value;

use super::cell;

pub(super) fn page() -> String {
    let mut text = "All are of the group `velero.io` and live in the namespace of the server.\n".to_owned();
    for definition in velero_api::crd::all() {
        text += &section(&definition["spec"]);
    }
    text
}

fn section(spec: &Value) -> String {
    let names = &spec["names"];
    let mut text = format!("\n## {}\n\n", string(&names["kind"]));
    for version in spec["versions"].as_array().into_iter().flatten() {
        let short: Vec<String> =
            names["shortNames"].as_array().into_iter().flatten().map(|name| format!("`{}`", string(name))).collect();
        let short = if short.is_empty() { String::new() } else { format!(", short {}", short.join(", ")) };
        let schema = &version["schema"]["openAPIV3Schema"];
        text += &format!("`velero.io/{}`, `{}`{short}. ", string(&version["name"]), string(&names["plural"]));
        text += &format!("{}\n\n| field | type | meaning |\n|---|---|---|\n", cell(string(&schema["description"])));
        for part in ["spec", "status"] {
            fields(part, &schema["properties"][part], string(&names["kind"]), &mut text);
        }
    }
    text
}

/// The fields below one, a row each.
fn fields(path: &str, schema: &Value, kind: &str, text: &mut String) {
    // What a schedule makes is what a backup is.
    if (kind, path) == ("Schedule", "spec.template") {
        *text += "| `spec.template.…` | | as `spec` of a [Backup](#backup) |\n";
        return;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let (path, field) = (format!("{path}.{name}"), field);
        *text += &format!("| `{path}` | {} | {} |\n", type_of(field), meaning(field));
        fields(&path, field, kind, text);
        fields(&format!("{path}[]"), &field["items"], kind, text);
        fields(&format!("{path}.KEY"), &field["additionalProperties"], kind, text);
    }
}

fn type_of(field: &Value) -> String {
    let plain = if field["x-kubernetes-int-or-string"] == true { "number or text" } else { string(&field["type"]) };
    match plain {
        "array" => format!("list of {}", type_of(&field["items"])),
        "object" if field["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&field["additionalProperties"]))
        }
        plain => plain.to_owned(),
    }
}

fn meaning(field: &Value) -> String {
    let values: Vec<String> =
        field["enum"].as_array().into_iter().flatten().map(|value| format!("`{}`", string(value))).collect();
    let values = if values.is_empty() { String::new() } else { format!(" One of {}.", values.join(", ")) };
    cell(string(&field["description"])) + &values
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_section_and_every_field_a_row() {
        let page = page();
        for kind in ["Backup", "Restore", "Schedule", "BackupStorageLocation", "DataUpload"] {
            assert!(page.contains(&format!("\n## {kind}\n")), "{kind} is missing");
        }
        for row in
            ["| `spec.includedNamespaces` | list of string |", "| `spec.template.…` |", "| `spec.ttl` | string |"]
        {
            assert!(page.contains(row), "{row} is missing");
        }
        for row in page.lines().filter(|line| line.starts_with("| ")) {
            assert_eq!(row.replace("\\|", "").matches('|').count(), 4, "{row}");
        }
    }
}
