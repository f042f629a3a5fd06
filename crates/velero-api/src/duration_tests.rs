use proptest::prelude::*;

use super::*;

#[test]
fn durations_are_written_as_go_writes_them() {
    let cases = [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (60_000_000_000, "1m0s"),
        (245_000_000_000, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (480_000_000_001, "8m0.000000001s"),
        (2_592_000_000_000_000, "720h0m0s"),
        (-90_000_000_000, "-1m30s"),
        (i64::MAX, "2562047h47m16.854775807s"),
        (i64::MIN, "-2562047h47m16.854775808s"),
    ];
    for (nanoseconds, text) in cases {
        assert_eq!(GoDuration::from_nanos(nanoseconds).to_string(), text);
        assert_eq!(text.parse(), Ok(GoDuration::from_nanos(nanoseconds)), "{text}");
    }
}

#[test]
fn every_spelling_go_reads_is_read() {
    let cases = [
        ("0", 0),
        ("-0", 0),
        ("+5s", 5_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5s", 500_000_000),
        ("5.s", 5_000_000_000),
        ("100ms", 100_000_000),
        ("12us", 12_000),
        ("12µs", 12_000),
        ("12μs", 12_000),
        ("10.5s4m", 250_500_000_000),
        ("0.100000000000000000000h", 360_000_000_000),
    ];
    for (text, nanoseconds) in cases {
        assert_eq!(text.parse(), Ok(GoDuration::from_nanos(nanoseconds)), "{text}");
    }
}

#[test]
fn what_go_refuses_is_refused_with_the_text_and_a_remedy() {
    for text in ["", "-", "3", "s", ".s", "-.s", "1d", "1h 30m", "9223372036854775808ns", "3000000h", "--1s", "1e3s"] {
        let error = text.parse::<GoDuration>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{error}");
        assert!(error.contains("1h30m"), "{error}");
    }
}

#[test]
fn a_negative_duration_is_over_for_a_timer() {
    assert_eq!(GoDuration::from_secs(-5).to_std(), Duration::ZERO);
    assert_eq!(GoDuration::from_mins(2).to_std(), Duration::from_secs(120));
}

#[test]
fn zero_gives_way_to_a_default() {
    let default = GoDuration::from_hours(720);
    assert_eq!(GoDuration::ZERO.or(default), default);
    assert_eq!(GoDuration::from_secs(1).or(default), GoDuration::from_secs(1));
}

proptest! {
    #[test]
    fn every_duration_survives_its_text(nanoseconds: i64) {
        let duration = GoDuration::from_nanos(nanoseconds);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*|[-+0-9.hmsnuµ]{0,40}") {
        let _ = text.parse::<GoDuration>();
    }
}
