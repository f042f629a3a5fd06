//! Two texts, line by line: what is on both sides, and what on one alone.

/// How many pairs of lines are compared at most: of texts that differ in more, everything differs.
const MOST_PAIRS: usize = 2_000_000;
/// How many lines are shown around what differs.
const AROUND: usize = 3;

/// A line, and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Line<'a> {
    Both(&'a str),
    One(&'a str),
    Other(&'a str),
    /// So many lines are on both sides and not shown.
    Skipped(usize),
}

/// What differs between two texts, with a few lines around it; nothing when they are the same.
pub(crate) fn difference<'a>(one: &'a str, other: &'a str) -> Vec<Line<'a>> {
    if one == other {
        return Vec::new();
    }
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let start = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let (rest_of_one, rest_of_other) = (&one[start..], &other[start..]);
    let end = rest_of_one.iter().rev().zip(rest_of_other.iter().rev()).take_while(|(one, other)| one == other).count();
    let (middle_of_one, tail) = rest_of_one.split_at(rest_of_one.len() - end);
    let middle_of_other = &rest_of_other[..rest_of_other.len() - end];
    let mut lines: Vec<Line<'a>> = one[..start].iter().copied().map(Line::Both).collect();
    lines.extend(middle(middle_of_one, middle_of_other));
    lines.extend(tail.iter().copied().map(Line::Both));
    shortened(&lines)
}

/// The longest common lines of two texts stay, the rest is on one side.
fn middle<'a>(one: &[&'a str], other: &[&'a str]) -> Vec<Line<'a>> {
    let width = other.len() + 1;
    if (one.len() + 1).saturating_mul(width) > MOST_PAIRS {
        return one.iter().copied().map(Line::One).chain(other.iter().copied().map(Line::Other)).collect();
    }
    // How many lines are common from here on.
    let mut common = vec![0_u32; (one.len() + 1) * width];
    for row in (0..one.len()).rev() {
        for column in (0..other.len()).rev() {
            let (down, right) = (common[(row + 1) * width + column], common[row * width + column + 1]);
            let both = common[(row + 1) * width + column + 1] + 1;
            common[row * width + column] = if one[row] == other[column] { both } else { down.max(right) };
        }
    }
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    while row < one.len() && column < other.len() {
        if one[row] == other[column] {
            lines.push(Line::Both(one[row]));
            (row, column) = (row + 1, column + 1);
        } else if common[(row + 1) * width + column] >= common[row * width + column + 1] {
            lines.push(Line::One(one[row]));
            row += 1;
        } else {
            lines.push(Line::Other(other[column]));
            column += 1;
        }
    }
    lines.extend(one[row..].iter().copied().map(Line::One));
    lines.extend(other[column..].iter().copied().map(Line::Other));
    lines
}

/// Leaves out what is far from any difference.
fn shortened<'a>(lines: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut near = vec![false; lines.len()];
    for (number, line) in lines.iter().enumerate() {
        if !matches!(line, Line::Both(_)) {
            let end = (number + AROUND + 1).min(lines.len());
            near[number.saturating_sub(AROUND)..end].fill(true);
        }
    }
    let mut shown = Vec::new();
    for (line, near) in lines.iter().zip(near) {
        match shown.last_mut() {
            _ if near => shown.push(*line),
            Some(Line::Skipped(count)) => *count += 1,
            _ => shown.push(Line::Skipped(1)),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_changed_are_told_with_a_few_around() {
        let one = "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\n";
        let other = "a: 1\nb: 2\nc: 3\nd: 4\ne: 9\nf: 6\ng: 7\n";
        assert_eq!(
            difference(one, other),
            [
                Line::Skipped(1),
                Line::Both("b: 2"),
                Line::Both("c: 3"),
                Line::Both("d: 4"),
                Line::One("e: 5"),
                Line::Other("e: 9"),
                Line::Both("f: 6"),
                Line::Other("g: 7"),
            ]
        );
        assert!(difference(one, one).is_empty());
        assert_eq!(difference("", "a"), [Line::Other("a")]);
        assert_eq!(difference("a", ""), [Line::One("a")]);
    }

    fn borrowed(lines: &[String]) -> Vec<&str> {
        lines.iter().map(String::as_str).collect()
    }

    #[test]
    fn both_texts_can_be_read_out_of_the_difference() {
        let one: Vec<String> = (0..200).map(|number| format!("{}", number * 7 % 31)).collect();
        let other: Vec<String> = (0..180).map(|number| format!("{}", number * 5 % 29)).collect();
        let lines = middle(&borrowed(&one), &borrowed(&other));
        let side = |is_other: bool| -> Vec<String> {
            let text = |line: &Line<'_>| match (line, is_other) {
                (Line::Both(text), _) | (Line::One(text), false) | (Line::Other(text), true) => {
                    Some((*text).to_owned())
                }
                _ => None,
            };
            lines.iter().filter_map(text).collect()
        };
        assert_eq!((side(false), side(true)), (one, other));
    }

    #[test]
    fn texts_of_any_length_take_bounded_time_and_memory() {
        let text = |letter: char| (0..50_000).map(|number| format!("{letter}{number}\n")).collect::<String>();
        let lines = difference(&text('a'), &text('b')).len();
        assert_eq!(lines, 100_000);
    }
}
