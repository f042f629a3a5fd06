//! A page: what in it can be linked to, what it links to, and its blocks of code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A link, or an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it leads.
    pub target: String,
    /// The line it stands in.
    pub line: usize,
}

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// What stands behind the fence.
    pub info: String,
    /// What stands in it.
    pub text: String,
    /// The line of the fence.
    pub line: usize,
}

/// A page of Markdown.
#[derive(Debug)]
pub struct Page {
    /// Its path in the repository.
    pub path: PathBuf,
    /// The names under which its headings can be linked to.
    pub anchors: BTreeSet<String>,
    /// Its links and images.
    pub links: Vec<Link>,
    /// Its fenced blocks of code.
    pub blocks: Vec<Block>,
}

impl Page {
    /// Reads a page.
    pub fn parse(path: &Path, text: &str) -> Self {
        let mut page = Self { path: path.to_owned(), anchors: BTreeSet::new(), links: Vec::new(), blocks: Vec::new() };
        let (mut heading, mut is_heading, mut block) = (String::new(), false, None::<Block>);
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            let line = || text[..range.start].lines().count().max(1) + usize::from(text[..range.start].ends_with('\n'));
            match event {
                Event::Start(Tag::Heading { .. }) => (is_heading, heading) = (true, String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    is_heading = false;
                    page.add_anchor(&heading);
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(Link { target: dest_url.into_string(), line: line() });
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    block = Some(Block { info: info.into_string(), text: String::new(), line: line() });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(more) | Event::Code(more) => {
                    if let Some(block) = &mut block {
                        block.text += &more;
                    } else if is_heading {
                        heading += &more;
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// A heading that is there twice gets a number, as mdBook and code hosts give it.
    fn add_anchor(&mut self, heading: &str) {
        let anchor = anchor(heading);
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !self.anchors.contains(name));
        self.anchors.extend(free);
    }
}

/// The name of a heading as mdBook and code hosts make it.
fn anchor(heading: &str) -> String {
    let sign = |sign: char| match sign {
        ' ' => Some('-'),
        '-' | '_' => Some(sign),
        sign if sign.is_alphanumeric() => Some(sign),
        _ => None,
    };
    heading.trim().to_lowercase().chars().filter_map(sign).collect()
}
