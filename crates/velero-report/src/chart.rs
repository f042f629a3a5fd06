//! Small pictures: bars day by day, and a line. They are drawn with shapes alone, no script and no style of their own, and say
//! in words what they show.

use std::fmt::Write;

use crate::html::escaped;
use crate::report::Day;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;

/// How backups ended, a bar a day: what failed lies on top.
pub(crate) fn bars(days: &[Day], label: &str) -> String {
    let most =
        days.iter().map(|day| day.completed + day.partially_failed + day.failed).max().unwrap_or_default().max(1);
    let step = WIDTH / days.len().max(1) as f64;
    let mut shapes = String::new();
    for (position, day) in days.iter().enumerate() {
        let mut base = HEIGHT;
        let x = step * position as f64 + step * 0.1;
        let title = format!(
            "{}: {} completed, {} partially failed, {} failed",
            day.date, day.completed, day.partially_failed, day.failed
        );
        let _ = write!(shapes, "<g><title>{}</title>", escaped(&title));
        for (class, number) in [("good", day.completed), ("part", day.partially_failed), ("bad", day.failed)] {
            let height = HEIGHT * number as f64 / most as f64;
            base -= height;
            if number > 0 {
                let width = step * 0.8;
                let _ = write!(
                    shapes,
                    r#"<rect class="{class}" x="{x:.1}" y="{base:.1}" width="{width:.1}" height="{height:.1}"/>"#
                );
            }
        }
        shapes.push_str("</g>");
    }
    picture(label, WIDTH, HEIGHT, &shapes)
}

/// A line through values in the order of time.
pub(crate) fn line(values: &[f64], label: &str) -> String {
    const SIZE: (f64, f64) = (160.0, 32.0);
    let finite = |value: &f64| if value.is_finite() { *value } else { 0.0 };
    let most = values.iter().map(finite).fold(0.0, f64::max);
    let step = SIZE.0 / (values.len().max(2) - 1) as f64;
    let height = |value: f64| if most > 0.0 { SIZE.1 - 2.0 - (SIZE.1 - 4.0) * value / most } else { SIZE.1 - 2.0 };
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(position, value)| format!("{:.1},{:.1}", step * position as f64, height(finite(value))))
        .collect();
    let shape = match points.as_slice() {
        [] => String::new(),
        [only] => {
            let y = only.split_once(',').map_or("0", |(_, y)| y);
            format!(r#"<circle class="mark" cx="4" cy="{y}" r="3"/>"#)
        }
        points => format!(r#"<polyline class="line" points="{}"/>"#, points.join(" ")),
    };
    picture(label, SIZE.0, SIZE.1, &shape)
}

fn picture(label: &str, width: f64, height: f64, shapes: &str) -> String {
    format!(
        r#"<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" height="{height}"><title>{label}</title>{shapes}</svg>"#,
        label = escaped(label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(completed: usize, partially_failed: usize, failed: usize) -> Day {
        let date = "2026-03-01".parse().unwrap();
        Day { date, completed, partially_failed, failed, items: 0, bytes: 0, seconds: 0 }
    }

    #[test]
    fn a_bar_has_a_piece_for_each_way_to_end_and_they_fill_the_height() {
        let drawn = bars(&[day(2, 1, 1), day(0, 0, 0), day(1, 0, 0)], "how backups ended");
        assert_eq!(drawn.matches("<rect").count(), 4);
        assert_eq!(drawn.matches("<g>").count(), 3);
        assert!(drawn.contains(r#"class="good" x="21.3" y="60.0" width="170.7" height="60.0""#), "{drawn}");
        assert!(drawn.contains(r#"class="bad" x="21.3" y="0.0""#), "{drawn}");
        assert!(drawn.contains("2026-03-01: 2 completed, 1 partially failed, 1 failed"), "{drawn}");
    }

    #[test]
    fn nothing_one_and_odd_values_are_drawn_without_harm() {
        assert!(!bars(&[], "none").contains("rect"));
        assert!(!line(&[], "none").contains("line\""));
        assert!(line(&[7.0], "one").contains("circle"));
        let odd = line(&[0.0, f64::NAN, f64::INFINITY, 5.0], "a <b> \"c\"");
        assert!(!odd.contains("NaN") && !odd.contains("inf"), "{odd}");
        assert!(odd.contains("a &lt;b&gt; &quot;c&quot;"), "{odd}");
    }
}
