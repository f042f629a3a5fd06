//! A table as `kubectl` lays it out.

use std::collections::BTreeMap;

/// The narrowest column.
const MINIMUM_WIDTH: usize = 6;
/// The space behind the longest cell of a column.
const PADDING: usize = 3;

/// Headings and rows.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(super) fn new(columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        let headings = columns.iter().map(|name| name.to_uppercase()).collect();
        Self { rows: std::iter::once(headings).chain(rows).collect() }
    }

    /// Adds a column with the value of one label.
    pub(super) fn add_label_column(&mut self, label: &str, labels: &[BTreeMap<String, String>]) {
        let heading = label.rsplit('/').next().unwrap_or(label).to_uppercase();
        let values = labels.iter().map(|labels| labels.get(label).cloned().unwrap_or_default());
        self.add_column(heading, values);
    }

    /// Adds a column with all labels.
    pub(super) fn add_all_labels(&mut self, labels: &[BTreeMap<String, String>]) {
        let values = labels.iter().map(|labels| {
            let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
        });
        self.add_column("LABELS".to_owned(), values);
    }

    fn add_column(&mut self, heading: String, values: impl Iterator<Item = String>) {
        let cells = std::iter::once(heading).chain(values);
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }

    /// The text of the table; without rows there are no headings either. The last column is not padded.
    pub(super) fn render(&self) -> String {
        if self.rows.len() == 1 {
            return String::new();
        }
        let count = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let longest = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
            MINIMUM_WIDTH.max(longest.unwrap_or_default() + PADDING)
        };
        let widths: Vec<usize> = (0..count).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                text.push_str(&first_line(cell));
                if column + 1 < row.len() {
                    let used = cell.chars().count();
                    text.extend(std::iter::repeat_n(' ', widths[column].saturating_sub(used)));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// A cell holds one line.
fn first_line(cell: &str) -> std::borrow::Cow<'_, str> {
    match cell.split_once(['\n', '\r', '\u{c}']) {
        Some((line, _)) => format!("{line}...").into(),
        None => cell.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell_and_the_last_is_open() {
        let rows = vec![vec!["a-long-name".to_owned(), String::new()], vec!["b".to_owned(), "true".to_owned()]];
        let text = Table::new(&["Name", "Default"], rows).render();
        assert_eq!(text, "NAME          DEFAULT\na-long-name   \nb             true\n");
    }

    #[test]
    fn a_label_column_is_headed_by_the_last_part_of_its_key() {
        let mut table = Table::new(&["Name"], vec![vec!["a".to_owned()], vec!["b".to_owned()]]);
        let labels = [BTreeMap::from([("velero.io/schedule-name".to_owned(), "daily".to_owned())]), BTreeMap::new()];
        table.add_label_column("velero.io/schedule-name", &labels);
        table.add_all_labels(&labels);
        let expected = "NAME   SCHEDULE-NAME   LABELS\na      daily           velero.io/schedule-name=daily\nb                      <none>\n";
        assert_eq!(table.render(), expected);
    }
}
