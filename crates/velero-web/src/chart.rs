//! Small charts, drawn here: bars in a picture, each with a title, and the same in words for who does not see it.

use maud::{Markup, html};

/// How high a bar may be, and how low one is that stands for something.
const HEIGHT: u64 = 80;
const LOWEST: u64 = 4;
/// How wide a bar is, with the gap behind it.
const STEP: usize = 10;

/// One bar.
pub(crate) struct Bar {
    pub(crate) value: u64,
    /// The phase it stands for, which gives the colour.
    pub(crate) phase: String,
    /// What it stands for, in words.
    pub(crate) title: String,
}

/// Bars, oldest first; nothing where there are none.
pub(crate) fn bars(heading: &str, label: &str, bars: &[Bar]) -> Markup {
    let Some(most) = bars.iter().map(|bar| bar.value).max() else { return html! {} };
    let width = (bars.len() * STEP).max(STEP);
    html! {
        h2 { (heading) }
        svg.chart viewBox=(format!("0 0 {width} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (number, bar) in bars.iter().enumerate() {
                @let height = height(bar.value, most);
                rect.(class_of(&bar.phase)) x=(number * STEP) y=(HEIGHT - height) width=(STEP - 2) height=(height) {
                    title { (bar.title) }
                }
            }
        }
        p.none { (label) }
    }
}

fn height(value: u64, most: u64) -> u64 {
    let share = u128::from(HEIGHT - LOWEST) * u128::from(value) / u128::from(most.max(1));
    LOWEST + u64::try_from(share).unwrap_or(HEIGHT - LOWEST)
}

fn class_of(phase: &str) -> &'static str {
    match phase {
        "Completed" => "fine",
        "PartiallyFailed" => "doubtful",
        _ => "bad",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: u64, title: &str) -> Bar {
        Bar { value, phase: "Completed".to_owned(), title: title.to_owned() }
    }

    #[test]
    fn the_highest_bar_fills_the_picture_and_markup_in_titles_is_text() {
        let text = bars("Size", "in <words>", &[bar(0, "none"), bar(5, "<script>"), bar(10, "all")]).into_string();
        assert_eq!(text.matches("<rect").count(), 3);
        assert!(text.contains("height=\"80\"") && text.contains("height=\"42\"") && text.contains("height=\"4\""));
        assert!(text.contains("&lt;script&gt;") && !text.contains("<words>"), "{text}");
        assert_eq!(bars("Size", "none", &[]).into_string(), "");
    }

    #[test]
    fn any_values_can_be_drawn() {
        assert_eq!((height(0, 0), height(u64::MAX, u64::MAX), height(1, u64::MAX)), (LOWEST, HEIGHT, LOWEST));
    }
}
