use super::*;
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn next(expression: &str, after: &str) -> Option<Timestamp> {
    CronSchedule::parse(expression).unwrap().next(at(after), &TimeZone::UTC)
}

#[test]
fn activations_follow_the_table() {
    let table = [
        ("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z"),
        ("0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z"),
        ("*/15 * * * *", "2012-07-09T14:59:59.9Z", "2012-07-09T15:00:00Z"),
        ("5/15 * * * *", "2012-07-09T15:06:00Z", "2012-07-09T15:20:00Z"),
        ("20-35/15 * * * *", "2012-07-09T23:45:00Z", "2012-07-10T00:20:00Z"),
        ("20-35/15 1/2 */2 * *", "2012-07-09T23:35:51Z", "2012-07-11T01:20:00Z"),
        ("0 0 9 Apr-Oct ?", "2012-07-09T23:35:00Z", "2012-08-09T00:00:00Z"),
        ("0 0 */5 Apr,Aug,Oct Mon", "2012-07-09T23:35:00Z", "2012-08-01T00:00:00Z"),
        ("0 0 * Feb Mon", "2012-07-09T23:35:00Z", "2013-02-04T00:00:00Z"),
        ("0 0 * Feb Mon/2", "2012-07-09T23:35:00Z", "2013-02-01T00:00:00Z"),
        ("* * * * *", "2012-12-31T23:59:45Z", "2013-01-01T00:00:00Z"),
        ("0 0 29 Feb ?", "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z"),
        ("30 08 15 Jul ?", "2012-07-15T08:29:59Z", "2012-07-15T08:30:00Z"),
        ("0 0 1,15 * Sun", "2012-07-14T12:00:00Z", "2012-07-15T00:00:00Z"),
        ("0 0 1,15 * Sun", "2012-07-15T00:00:00Z", "2012-07-22T00:00:00Z"),
        ("0 0 1,15 * *", "2012-07-15T00:00:00Z", "2012-08-01T00:00:00Z"),
        ("0 0 */2 * Sun", "2012-07-09T00:00:00Z", "2012-07-11T00:00:00Z"),
        ("@hourly", "2012-07-09T15:04:00Z", "2012-07-09T16:00:00Z"),
        ("@daily", "2012-07-09T15:04:00Z", "2012-07-10T00:00:00Z"),
        ("@midnight", "2012-07-09T15:04:00Z", "2012-07-10T00:00:00Z"),
        ("@weekly", "2012-07-09T15:04:00Z", "2012-07-15T00:00:00Z"),
        ("@monthly", "2012-07-09T15:04:00Z", "2012-08-01T00:00:00Z"),
        ("@yearly", "2012-07-09T15:04:00Z", "2013-01-01T00:00:00Z"),
        ("@annually", "2012-07-09T15:04:00Z", "2013-01-01T00:00:00Z"),
        ("@every 1h30m", "2012-07-09T15:04:05.9Z", "2012-07-09T16:34:05Z"),
        ("@every 10ms", "2012-07-09T15:04:05Z", "2012-07-09T15:04:06Z"),
        ("TZ=Asia/Kolkata 14 14 * * *", "2016-01-03T07:39:03Z", "2016-01-03T08:44:00Z"),
        ("1,,2 * * * *", "2012-07-09T15:01:00Z", "2012-07-09T15:02:00Z"),
    ];
    for (expression, after, expected) in table {
        assert_eq!(next(expression, after), Some(at(expected)), "{expression} after {after}");
    }
}

#[test]
fn clocks_put_forward_skip_the_hour_that_does_not_exist() {
    let table = [
        ("TZ=America/New_York 30 2 11 Mar ?", "2012-03-11T00:00:00-05:00", "2013-03-11T02:30:00-04:00"),
        ("TZ=America/New_York 0 * * * ?", "2012-03-11T01:00:00-05:00", "2012-03-11T03:00:00-04:00"),
        ("CRON_TZ=America/New_York 0 * * * ?", "2012-03-11T03:00:00-04:00", "2012-03-11T04:00:00-04:00"),
        ("TZ=America/New_York 0 1 * * ?", "2012-03-11T01:00:00-05:00", "2012-03-12T01:00:00-04:00"),
        ("TZ=America/New_York 0 2 * * ?", "2012-03-11T00:00:00-05:00", "2012-03-12T02:00:00-04:00"),
        ("TZ=Europe/Berlin 30 2 * * *", "2012-03-24T12:00:00+01:00", "2012-03-26T02:30:00+02:00"),
    ];
    for (expression, after, expected) in table {
        assert_eq!(next(expression, after), Some(at(expected)), "{expression} after {after}");
    }
}

#[test]
fn clocks_put_back_run_the_repeated_hour_twice() {
    let table = [
        ("TZ=America/New_York 30 2 04 Nov ?", "2012-11-04T00:00:00-04:00", "2012-11-04T02:30:00-05:00"),
        ("TZ=America/New_York 30 1 04 Nov ?", "2012-11-04T01:45:00-04:00", "2012-11-04T01:30:00-05:00"),
        ("TZ=America/New_York 0 * * * ?", "2012-11-04T00:00:00-04:00", "2012-11-04T01:00:00-04:00"),
        ("TZ=America/New_York 0 * * * ?", "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
        ("TZ=America/New_York 0 * * * ?", "2012-11-04T01:00:00-05:00", "2012-11-04T02:00:00-05:00"),
        ("TZ=America/New_York 0 1 * * ?", "2012-11-04T00:00:00-04:00", "2012-11-04T01:00:00-04:00"),
        ("TZ=America/New_York 0 1 * * ?", "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
        ("TZ=America/New_York 0 1 * * ?", "2012-11-04T01:00:00-05:00", "2012-11-05T01:00:00-05:00"),
        ("TZ=America/New_York 0 2 * * ?", "2012-11-04T00:00:00-04:00", "2012-11-04T02:00:00-05:00"),
        ("TZ=America/New_York 0 3 3 * ?", "2012-11-04T00:00:00-04:00", "2012-12-03T03:00:00-05:00"),
    ];
    for (expression, after, expected) in table {
        assert_eq!(next(expression, after), Some(at(expected)), "{expression} after {after}");
    }
}

#[test]
fn a_midnight_that_does_not_exist_is_stepped_over() {
    let table = [
        ("TZ=America/Sao_Paulo 0 9 10 * ?", "2018-10-17T05:00:00-04:00", "2018-11-10T06:00:00-05:00"),
        ("TZ=America/Sao_Paulo 0 9 22 * ?", "2018-02-14T05:00:00-05:00", "2018-02-22T07:00:00-05:00"),
    ];
    for (expression, after, expected) in table {
        assert_eq!(next(expression, after), Some(at(expected)), "{expression} after {after}");
    }
}

#[test]
fn a_day_that_a_zone_left_out_is_stepped_over() {
    let expression = "TZ=Pacific/Apia 0 6 5 * *";
    assert_eq!(next(expression, "2011-12-29T12:00:00Z"), Some(at("2012-01-05T06:00:00+14:00")));
}

#[test]
fn the_zone_of_the_server_counts_where_none_is_named() {
    let schedule = CronSchedule::parse("0 9 * * *").unwrap();
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    assert_eq!(schedule.next(at("2024-07-01T00:00:00Z"), &berlin), Some(at("2024-07-01T07:00:00Z")));
    assert_eq!(schedule.next(at("2024-07-01T00:00:00Z"), &TimeZone::UTC), Some(at("2024-07-01T09:00:00Z")));
}

#[test]
fn a_day_that_never_comes_has_no_activation() {
    assert_eq!(next("0 0 30 Feb ?", "2012-07-09T23:35:00Z"), None);
    assert_eq!(next("0 0 31 Apr ?", "2012-07-09T23:35:00Z"), None);
}

#[test]
fn errors_name_the_field() {
    let table = [
        ("", "empty spec string"),
        ("xyz", "expected exactly 5 fields, found 1: [xyz]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 0 * * *", "end of range (60) above maximum (59): 60 in the minute field"),
        ("0 24 * * *", "end of range (24) above maximum (23): 24 in the hour field"),
        ("0 0 0 * *", "beginning of range (0) below minimum (1): 0 in the day-of-month field"),
        ("0 0 * 13 *", "end of range (13) above maximum (12): 13 in the month field"),
        ("0 0 * * 7", "end of range (7) above maximum (6): 7 in the day-of-week field"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1 in the minute field"),
        ("15/0 * * * *", "step of range should be a positive number: 15/0 in the minute field"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3 in the minute field"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3 in the minute field"),
        (", * * * *", "no value: , in the minute field"),
        ("@never", "unrecognized descriptor: @never"),
        ("TZ=UTC", "no cron expression after TZ=UTC"),
    ];
    for (expression, message) in table {
        assert_eq!(CronSchedule::parse(expression).unwrap_err().to_string(), message, "{expression}");
    }
    for expression in ["0 0 * * XYZ", "@every soon", "TZ=Nowhere/Land 0 0 * * *", "-1 * * * *", "/5 * * * *"] {
        assert!(CronSchedule::parse(expression).is_err(), "{expression}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = CronSchedule::parse(&text);
    }

    #[test]
    fn an_activation_lies_after_the_moment_asked_for(
        zone in prop::sample::select(&["America/New_York", "Pacific/Apia", "Africa/Cairo", "Australia/Lord_Howe"][..]),
        minute in "[0-9*/,-]{1,5}", hour in "[0-9*/,-]{1,5}", day in "[0-9*/,?-]{1,4}", second in 0i64..4_000_000_000,
    ) {
        let text = format!("TZ={zone} {minute} {hour} {day} * *");
        if let Ok(schedule) = CronSchedule::parse(&text) {
            let after = Timestamp::from_second(second).unwrap();
            if let Some(next) = schedule.next(after, &TimeZone::UTC) {
                prop_assert!(next > after);
                prop_assert_eq!(next.as_second() % 60, 0);
            }
        }
    }
}
