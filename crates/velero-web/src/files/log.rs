//! The lines of a log that a search finds, a page at a time.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use velero_api::v1::DownloadTargetKind;

use super::{FileProblem, Files, Wanted, read, target};

/// How many lines a page has.
pub(crate) const LINES: usize = 200;
/// How much is shown of a line, and searched.
pub(crate) const LONGEST_LINE: usize = 4096;
/// How many lines are read between two looks at the clock.
const BETWEEN_LOOKS: usize = 1000;

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// Which one of the log it is, from one.
    pub(crate) number: usize,
    /// What it says, as far as it is shown.
    pub(crate) text: String,
    /// Whether it says more.
    pub(crate) is_cut: bool,
}

/// A page of lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LogPage {
    pub(crate) lines: Vec<Line>,
    /// Whether there are more behind them.
    pub(crate) more: bool,
    /// Whether reading took so long that it was given up.
    pub(crate) given_up: bool,
    /// How many lines were longer than what is searched of them, of those that were read.
    pub(crate) cut: usize,
}

impl LogPage {
    /// Reads a page of the log of a backup or restore.
    pub(crate) async fn read(
        files: &dyn Files,
        kind: DownloadTargetKind,
        name: &str,
        wanted: Wanted,
    ) -> Result<Self, FileProblem> {
        read(files, &target(kind, name), move |reader, deadline| {
            Ok(select(MultiGzDecoder::new(reader), &wanted, deadline)?)
        })
        .await
    }
}

/// Finds the lines of a page.
fn select(reader: impl Read, wanted: &Wanted, deadline: Instant) -> io::Result<LogPage> {
    let search = wanted.search.to_lowercase();
    let mut reader = BufReader::new(reader);
    let (mut page, mut number, mut matched) = (LogPage::default(), 0, 0);
    let first = wanted.page.saturating_mul(LINES);
    loop {
        let (text, is_cut) = match line(&mut reader) {
            Ok(Some(line)) => line,
            Ok(None) => break,
            // Also within a line: it may have no end.
            Err(_) if Instant::now() > deadline => {
                page.given_up = true;
                break;
            }
            Err(error) => return Err(error),
        };
        number += 1;
        page.cut += usize::from(is_cut);
        if number % BETWEEN_LOOKS == 0 && Instant::now() > deadline {
            page.given_up = true;
            break;
        }
        if !search.is_empty() && !text.to_lowercase().contains(&search) {
            continue;
        }
        matched += 1;
        if matched <= first {
            continue;
        }
        if page.lines.len() == LINES {
            page.more = true;
            break;
        }
        page.lines.push(Line { number, text, is_cut });
    }
    Ok(page)
}

/// The next line, as far as it is shown, and whether that is not all of it; a longer one is skipped to its end.
fn line(reader: &mut impl BufRead) -> io::Result<Option<(String, bool)>> {
    let mut kept = Vec::new();
    let (mut any, mut is_cut) = (false, false);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LONGEST_LINE - kept.len();
        is_cut |= part.len() > room;
        kept.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            break;
        }
    }
    let text = String::from_utf8_lossy(&kept);
    // A letter of several bytes may have been cut in two.
    let shown: &str = if is_cut { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
    Ok(any.then(|| (shown.to_owned(), is_cut)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::InTime;
    use super::*;

    fn page(text: &str, search: &str, page: usize) -> LogPage {
        let wanted = Wanted { search: search.to_owned(), page };
        select(text.as_bytes(), &wanted, Instant::now() + Duration::from_secs(9)).unwrap()
    }

    #[test]
    fn a_search_finds_lines_in_letters_of_any_size_with_their_numbers() {
        let found = page("one\nTwo <b>\nthree\ntwofold", "TWO", 0);
        let numbers: Vec<_> = found.lines.iter().map(|line| (line.number, line.text.as_str())).collect();
        assert_eq!(numbers, [(2, "Two <b>"), (4, "twofold")]);
        assert!(!found.more && page("", "", 0).lines.is_empty());
    }

    #[test]
    fn a_log_of_any_length_is_shown_a_page_at_a_time() {
        let text: String = (1..=LINES + 1).map(|number| format!("line {number}\n")).collect();
        let (first, second) = (page(&text, "", 0), page(&text, "", 1));
        assert_eq!((first.lines.len(), first.more, first.lines[0].number), (LINES, true, 1));
        assert_eq!((second.lines.len(), second.more, second.lines[0].number), (1, false, LINES + 1));
        assert!(page(&text, "", usize::MAX).lines.is_empty());
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_a_slow_log_no_time() {
        let long = format!("{}\nnext\n", "x".repeat(1 << 20));
        let found = page(&long, "", 0);
        assert_eq!((found.lines[0].text.len(), found.lines[1].text.as_str()), (LONGEST_LINE, "next"));
        assert!(found.lines[0].is_cut && !found.lines[1].is_cut && found.cut == 1, "{}", found.cut);
        let many = "a\n".repeat(BETWEEN_LOOKS * 2);
        let wanted = Wanted { search: "b".to_owned(), page: 0 };
        let late = select(many.as_bytes(), &wanted, Instant::now() - Duration::from_secs(1)).unwrap();
        assert!(late.given_up && late.lines.is_empty());
    }

    #[test]
    fn of_a_long_line_the_beginning_is_searched_and_it_is_said() {
        let whole = "x".repeat(LONGEST_LINE);
        let text = format!("{whole}\n{whole}needle\nx{}\n", "ä".repeat(LONGEST_LINE));
        let found = page(&text, "needle", 0);
        assert_eq!((found.lines.len(), found.cut), (0, 2), "{found:?}");
        let all = page(&text, "", 0);
        let cut: Vec<bool> = all.lines.iter().map(|line| line.is_cut).collect();
        assert_eq!(cut, [false, true, true]);
        assert!(all.lines[2].text.ends_with('ä'), "no half of a letter");
    }

    #[test]
    fn a_line_that_never_ends_is_given_up() {
        let deadline = Instant::now() + Duration::from_millis(20);
        let reader = b"first\n".as_slice().chain(InTime { reader: io::repeat(b'x'), deadline });
        let found = select(reader, &Wanted::default(), deadline).unwrap();
        assert!(found.given_up, "{found:?}");
        assert_eq!(found.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["first"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_far_as_they_are() {
        let wanted = Wanted::default();
        let found = select(&b"a\xff\xfeb\n"[..], &wanted, Instant::now() + Duration::from_secs(9)).unwrap();
        assert_eq!(found.lines[0].text, "a\u{fffd}\u{fffd}b");
    }
}
