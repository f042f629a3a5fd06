//! Inputs that are made to take all memory or for ever: they are refused in little of both.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use velero_api::records::BackupOperation;
use velero_api::v1::Backup;
use velero_archive::{ArchiveReader, Error, Limits, gzjson};
use velero_rules::cron::CronSchedule;
use velero_rules::resource_modifiers::ResourceModifiers;
use velero_rules::resource_policies::ResourcePolicies;
use velero_testkit::hostile::{Parser, strike};

/// Ten gibibytes of one byte: a few mebibytes once compressed, in as many members as it takes.
fn bomb(beginning: &[u8], byte: u8) -> Vec<u8> {
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    [gzip(beginning), gzip(&vec![byte; 4 << 20]).repeat(2560)].concat()
}

/// Gives one input to a parser, as it is: bounded in time and memory like any other.
fn give(name: &'static str, input: Vec<u8>, parse: fn(&[u8])) {
    strike(&Parser { name, samples: vec![input], parse }, 1);
}

#[test]
fn ten_gibibytes_in_a_record_are_refused_without_being_held() {
    for (beginning, byte) in [(&b"["[..], b' '), (b"[{\"spec\": {\"backupName\": \"", b'a'), (b"[1", b'0')] {
        give("bomb in a record", bomb(beginning, byte), |bytes| {
            let outcome = gzjson::decode::<Vec<BackupOperation>>(bytes, 8 << 20);
            assert!(matches!(outcome, Err(Error::TooLarge { .. } | Error::Json(_))), "{outcome:?}");
        });
    }
}

#[test]
fn ten_gibibytes_in_an_archive_are_refused_without_being_held() {
    give("bomb in an archive", bomb(&[0; 512], 0), |bytes| {
        let limits = Limits { total_size: 256 << 20, ..Limits::default() };
        let outcome = ArchiveReader::new(bytes).with_limits(limits).for_each::<Error, _>(|_| Ok(()));
        assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
    });
}

#[test]
fn a_hundred_thousand_levels_are_refused() {
    fn refused(text: &str) {
        // A field that nobody knows may be passed over, however deep it is; but not kept.
        let _ = serde_json::from_str::<Backup>(text).map(|backup| serde_json::to_string(&backup).unwrap());
        assert!(serde_json::from_str::<Value>(text).is_err());
        assert!(gzjson::decode::<Vec<BackupOperation>>(&gzjson::compress(text.as_bytes()).unwrap(), 8 << 20).is_err());
        let data = BTreeMap::from([("key".to_owned(), text.to_owned())]);
        assert!(ResourcePolicies::from_config_map(&data).is_err());
        assert!(ResourceModifiers::from_config_map(&data).is_err());
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"spec\":", "}"), ("- ", ""), ("a: &b\n  ", "")] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        give("levels", text.into_bytes(), |bytes| refused(std::str::from_utf8(bytes).unwrap()));
    }
}

#[test]
fn aliases_that_double_again_and_again_are_refused() {
    let mut yaml = "version: v1\na0: &a0 [x, x]\n".to_owned();
    for number in 1..40 {
        yaml += &format!("a{number}: &a{number} [*a{0}, *a{0}]\n", number - 1);
    }
    give("aliases", yaml.into_bytes(), |bytes| {
        let text = std::str::from_utf8(bytes).unwrap().to_owned();
        assert!(ResourcePolicies::parse(&text).is_err());
        assert!(ResourceModifiers::parse(&text).is_err());
    });
}

#[test]
fn expressions_that_match_never_or_try_to_take_for_ever_end() {
    give("cron that never comes", b"0 0 31 2 *".to_vec(), |bytes| {
        let schedule = CronSchedule::parse(std::str::from_utf8(bytes).unwrap()).unwrap();
        assert_eq!(schedule.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC), None);
    });
    let rule = |regex: &str| {
        let conditions = format!("{{groupResource: pods, resourceNameRegex: '{regex}'}}");
        let patches = "[{operation: remove, path: /metadata/labels}]";
        format!("version: v1\nresourceModifierRules: [{{conditions: {conditions}, patches: {patches}}}]")
    };
    for regex in ["^(a+)+$", "^(a|a)*b$", "(a{1000}){1000}"] {
        give("regular expression", rule(regex).into_bytes(), |bytes| {
            let Ok(modifiers) = ResourceModifiers::parse(std::str::from_utf8(bytes).unwrap()) else { return };
            let name = "a".repeat(250) + "!";
            let mut pod = serde_json::json!({"kind": "Pod", "metadata": {"name": name, "labels": {}}});
            modifiers.apply(&mut pod, "pods");
            assert!(pod["metadata"]["labels"].is_object(), "it does not match");
        });
    }
}
