//! Lists that a page shows beside others, a part of each: every one has a page of its own in the address.

use maud::Markup;
use serde::Deserialize;

use super::parts;

/// Which part of a list is shown.
#[derive(Debug, PartialEq)]
pub(crate) struct Paged {
    /// What the list is called, in the address and for those who do not see it.
    name: &'static str,
    page: usize,
    /// What else the address says, ready to be written into it.
    rest: String,
}

impl Paged {
    /// One of the lists of a page: `pages` says which part of each is wanted, `others` what else the address says.
    pub(crate) fn among(name: &'static str, pages: &[(&'static str, usize)], others: &str) -> Self {
        let page = pages.iter().find(|(known, _)| *known == name).map_or(0, |(_, page)| *page);
        let mut rest = others.to_owned();
        for (other, page) in pages.iter().filter(|(known, page)| *known != name && *page > 0) {
            rest.push_str(&parts::entry(other, &page.to_string()));
        }
        Self { name, page, rest }
    }

    /// How many entries of a list come before the part, of so many entries at most.
    pub(crate) fn begin(&self, size: usize) -> usize {
        self.page.saturating_mul(size)
    }

    /// How many entries of a list are needed to show the part.
    pub(crate) fn end(&self, size: usize) -> usize {
        self.begin(size).saturating_add(size)
    }

    /// The part of a list.
    pub(crate) fn part<'a, T>(&self, all: &'a [T], size: usize) -> &'a [T] {
        &all[self.begin(size).min(all.len())..self.end(size).min(all.len())]
    }

    /// The way to the other parts.
    pub(crate) fn pager(&self, count: usize, size: usize) -> Markup {
        let more = self.page.saturating_add(1).saturating_mul(size) < count;
        parts::pager_of(self.name, self.page, more, &self.rest)
    }
}

/// The lists that the page of a backup or restore has, and which part of each is wanted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Lists {
    volumes: usize,
    operations: usize,
}

impl Lists {
    /// The volumes.
    pub(crate) fn volumes(self) -> Paged {
        self.list("volumes")
    }

    /// The operations.
    pub(crate) fn operations(self) -> Paged {
        self.list("operations")
    }

    fn list(self, name: &'static str) -> Paged {
        Paged::among(name, &[("volumes", self.volumes), ("operations", self.operations)], "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_has_its_own_page_and_leaves_those_of_others_as_they_are() {
        let all: Vec<usize> = (0..25).collect();
        let paged = Lists { volumes: 1, operations: 2 }.volumes();
        assert_eq!(paged.part(&all, 10), &all[10..20]);
        assert_eq!((paged.begin(10), paged.end(10)), (10, 20));
        let text = paged.pager(all.len(), 10).into_string();
        assert!(text.contains("?volumes=0&amp;operations=2") && text.contains("?volumes=2&amp;operations=2"), "{text}");
        let last = Lists { volumes: 2, operations: 0 }.volumes();
        assert_eq!(last.part(&all, 10), &all[20..]);
        let text = last.pager(all.len(), 10).into_string();
        assert!(!text.contains("rel=\"next\"") && !text.contains("operations"), "{text}");
    }

    #[test]
    fn a_page_that_is_too_far_is_empty_and_a_short_list_has_no_others() {
        let far = Lists { volumes: usize::MAX, operations: 0 }.volumes();
        assert!(far.part(&[1, 2, 3], 10).is_empty());
        assert_eq!(far.end(10), usize::MAX);
        assert!(!far.pager(3, 10).into_string().contains("rel=\"next\""));
        assert_eq!(Lists::default().operations().pager(10, 10).into_string(), "");
    }
}
