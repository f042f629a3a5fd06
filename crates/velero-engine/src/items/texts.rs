//! Many short texts, one behind the other. They lie in blocks, so that growing copies none of them.

/// How much a block holds; a text that is longer gets a block of its own.
const BLOCK: usize = 256 * 1024;

/// Where a text lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    block: u32,
    start: u32,
    length: u32,
}

/// The texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    blocks: Vec<String>,
}

impl Texts {
    /// Adds a text, given in parts.
    pub(super) fn add(&mut self, parts: &[&str]) -> Place {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let has_room = self.blocks.last().is_some_and(|block| block.len() + length <= block.capacity());
        if !has_room {
            // The first block grows with what it gets: most tables hold few items.
            let room = if self.blocks.is_empty() { 0 } else { BLOCK };
            let grows = self.blocks.len() == 1 && self.blocks[0].len() + length <= BLOCK;
            if !grows {
                self.blocks.push(String::with_capacity(room.max(length)));
            }
        }
        let block = self.blocks.len() - 1;
        let text = &mut self.blocks[block];
        let start = text.len();
        parts.iter().for_each(|part| text.push_str(part));
        Place { block: number(block), start: number(start), length: number(length) }
    }

    /// A text.
    pub(super) fn get(&self, place: Place) -> &str {
        let (start, length) = (place.start as usize, place.length as usize);
        &self.blocks[place.block as usize][start..start + length]
    }
}

/// A place among others, as a number that takes little room.
pub(super) fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_whatever_block_it_lies_in() {
        let mut texts = Texts::default();
        let long = "x".repeat(3 * BLOCK);
        let given: Vec<String> = (0..200_000)
            .map(|number| if number == 40_000 { long.clone() } else { format!("text-{number}") })
            .chain([String::new()])
            .collect();
        let places: Vec<Place> = given.iter().map(|text| texts.add(&[text])).collect();
        assert!(texts.blocks.len() > 3, "{}", texts.blocks.len());
        for (text, place) in given.iter().zip(places) {
            assert_eq!(texts.get(place), text);
        }
    }

    #[test]
    fn a_text_is_made_of_its_parts() {
        let mut texts = Texts::default();
        let place = texts.add(&["shop", "/", "web"]);
        assert_eq!(texts.get(place), "shop/web");
    }
}
