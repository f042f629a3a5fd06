//! A terminal session as a picture.

use std::fmt::Write;

/// What was typed, and what was said to it.
pub(super) struct Exchange {
    pub typed: String,
    pub said: String,
}

/// How much of what was said to a command is shown, from its beginning and from its end.
const FIRST: usize = 3;
const LAST: usize = 3;
/// The longest line, in characters.
const WIDTH: usize = 112;
/// The size of a character, in pixels.
const ACROSS: f64 = 7.83;
const DOWN: usize = 18;
const MARGIN: usize = 16;

/// Draws a session.
pub(super) fn svg(session: &[Exchange]) -> String {
    let lines: Vec<(bool, String)> = session.iter().flat_map(lines).collect();
    let (width, height) = (WIDTH as f64 * ACROSS + 2.0 * MARGIN as f64, lines.len() * DOWN + 2 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" viewBox=\"0 0 {width:.0} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"13\">\n\
         <!-- Made by cargo xtask book --picture, from what was really said. -->\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1e24\"/>\n"
    );
    for (number, (is_typed, line)) in lines.iter().enumerate() {
        let (color, y) = (if *is_typed { "#8fd48a" } else { "#d6d9df" }, MARGIN + number * DOWN + DOWN - 5);
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{color}\" xml:space=\"preserve\">{}</text>",
            escaped(line)
        );
    }
    text + "</svg>\n"
}

/// The lines of an exchange, and which of them was typed. What is left out is marked.
fn lines(exchange: &Exchange) -> Vec<(bool, String)> {
    let said: Vec<&str> = exchange.said.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut lines = vec![(true, format!("$ {}", cut(&exchange.typed)))];
    if said.len() <= FIRST + LAST + 2 {
        lines.extend(said.iter().map(|line| (false, cut(line))));
    } else {
        lines.extend(said[..FIRST].iter().map(|line| (false, cut(line))));
        lines.push((false, format!("… {} lines", said.len() - FIRST - LAST)));
        lines.extend(said[said.len() - LAST..].iter().map(|line| (false, cut(line))));
    }
    lines.push((false, String::new()));
    lines
}

fn cut(line: &str) -> String {
    let line = line.replace('\t', "    ");
    match line.chars().count() > WIDTH {
        true => line.chars().take(WIDTH - 2).chain(" …".chars()).collect(),
        false => line,
    }
}

fn escaped(line: &str) -> String {
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_a_session_is_marked_and_signs_are_escaped() {
        let said: String = (1..=20).map(|number| format!("line <{number}>\n")).collect();
        let picture = svg(&[Exchange { typed: "velero a && b".to_owned(), said }]);
        for expected in
            [">$ velero a &amp;&amp; b<", ">line &lt;3&gt;<", ">… 14 lines<", ">line &lt;18&gt;<", ">line &lt;20&gt;<"]
        {
            assert!(picture.contains(expected), "{expected} is missing in {picture}");
        }
        assert!(!picture.contains("line &lt;4&gt;") && !picture.contains("line &lt;17&gt;"), "{picture}");
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(cut(&"x".repeat(300)).chars().count(), WIDTH);
        assert_eq!(cut("short"), "short");
    }
}
