//! Amounts of processor time and memory.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, json};

const SUFFIXES: [&str; 15] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"];

/// Refuses what the API server would not take for an amount.
pub(super) fn check(flag: &str, text: &str) -> Result<()> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let is_number = digits.parse::<f64>().is_ok_and(|amount| amount >= 0.0) && !digits.contains(['e', 'E', '+']);
    if !is_number || !SUFFIXES.contains(&&text[digits.len()..]) {
        bail!("--{flag} {text:?} is not an amount; write it as 500m, 2, 128Mi or 1Gi, and 0 for no bound");
    }
    Ok(())
}

/// The resources of a container; an amount of zero is no bound.
pub(super) fn requirements(requests: [&str; 2], limits: [&str; 2]) -> Value {
    let bounded = |[cpu, memory]: [&str; 2]| -> BTreeMap<&str, String> {
        let amounts = [("cpu", cpu), ("memory", memory)];
        amounts.into_iter().filter(|(_, text)| !is_zero(text)).map(|(name, text)| (name, canonical(text))).collect()
    };
    let mut resources = json!({});
    for (name, amounts) in [("requests", bounded(requests)), ("limits", bounded(limits))] {
        if !amounts.is_empty() {
            resources[name] = json!(amounts);
        }
    }
    resources
}

fn is_zero(text: &str) -> bool {
    text.trim_end_matches(|character: char| character.is_ascii_alphabetic()).parse() == Ok(0.0)
}

/// Whole processors are written without the thousandths, as Kubernetes writes them.
fn canonical(text: &str) -> String {
    let thousandths: Option<u64> = text.strip_suffix('m').and_then(|amount| amount.parse().ok());
    match thousandths {
        Some(amount) if amount % 1000 == 0 => (amount / 1000).to_string(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_with_a_known_suffix() {
        for good in ["0", "500m", "1.5", "128Mi", "1Gi", "2k"] {
            check("flag", good).unwrap();
        }
        for bad in ["", "Mi", "128MB", "-1", "1 Gi", "lots", "nan", "inf", "1e3", "10é"] {
            assert!(check("flag", bad).unwrap_err().to_string().contains("--flag"), "{bad:?} was accepted");
        }
    }

    #[test]
    fn zero_is_no_bound() {
        assert_eq!(requirements(["0", "0"], ["0m", "0"]), json!({}));
        let expected = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "512Mi"}});
        assert_eq!(requirements(["500m", "0"], ["1000m", "512Mi"]), expected);
    }
}
