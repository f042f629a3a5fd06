//! How samples are changed.

use super::json;

/// What parsers stumble over: ends of ranges, signs, quotes, brackets.
const WORDS: [&[u8]; 24] = [
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"-1",
    b"0",
    b"4294967296",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"1e999",
    b"null",
    b"true",
    b"\"",
    b"\\",
    b"{}",
    b"[]",
    b"..",
    b"/",
    b"*",
    b"\n",
    b"&a [*a]",
    "\u{1f980}".as_bytes(),
];

/// How often a part is repeated at most.
const MOST_REPEATED: usize = 300;
/// How long an input becomes at most.
const LONGEST: usize = 64 << 10;

/// Makes inputs of samples, the same ones in every run.
pub struct Mutator {
    samples: Vec<Vec<u8>>,
    state: u64,
    made: usize,
}

impl Mutator {
    /// The inputs of a name and some samples.
    pub fn new(name: &str, samples: &[Vec<u8>]) -> Self {
        let seed = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { samples: samples.to_vec(), state: seed | 1, made: 0 }
    }

    /// The next input: the samples as they are come first.
    pub fn next_input(&mut self) -> Vec<u8> {
        let number = self.made;
        self.made += 1;
        if let Some(sample) = self.samples.get(number) {
            return sample.clone();
        }
        let mut input = self.samples[number % self.samples.len()].clone();
        // Every other one, so that each sample is changed in both ways.
        if (number / self.samples.len()).is_multiple_of(2)
            && let Some(changed) = json::changed(&input, |bound| self.below(bound))
        {
            return changed;
        }
        for _ in 0..1 + self.below(4) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let place = self.below(input.len() + 1);
        match self.below(9) {
            0 => self.flip(input),
            1 => input.truncate(place),
            2 => drop(input.drain(self.range(input.len(), 64))),
            3 => self.repeat(input),
            4 => self.splice(input, place),
            5 => {
                let bytes: Vec<u8> = (0..1 + self.below(8)).map(|_| self.below(256) as u8).collect();
                input.splice(place..place, bytes);
            }
            6 => self.replace_number(input),
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                let end = (place + self.below(word.len() + 1)).min(input.len());
                input.splice(place..end, word.iter().copied());
            }
        }
    }

    fn flip(&mut self, input: &mut [u8]) {
        if !input.is_empty() {
            let place = self.below(input.len());
            input[place] ^= 1 << self.below(8);
        }
    }

    /// A part again and again: lists grow, and brackets nest.
    fn repeat(&mut self, input: &mut Vec<u8>) {
        let range = self.range(input.len(), 64);
        let (end, times) = (range.end, 1 + self.below(MOST_REPEATED));
        let repeated = input[range].repeat(times);
        input.splice(end..end, repeated);
    }

    /// A part of another sample.
    fn splice(&mut self, input: &mut Vec<u8>, place: usize) {
        let number = self.below(self.samples.len());
        let other = self.samples[number].clone();
        let range = self.range(other.len(), other.len());
        let end = place + self.below(input.len() - place + 1);
        input.splice(place..end, other[range].iter().copied());
    }

    fn replace_number(&mut self, input: &mut Vec<u8>) {
        let place = self.below(input.len() + 1);
        let Some(start) = input[place..].iter().position(u8::is_ascii_digit).map(|start| place + start) else { return };
        let length = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let word = WORDS[5 + self.below(7)];
        input.splice(start..start + length, word.iter().copied());
    }

    /// A range in some bytes, at most that long.
    fn range(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(longest + 1)).min(length)
    }

    /// A number below another.
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) as usize % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_in_every_run_begin_with_the_samples_and_differ() {
        let samples = [b"one: 1".to_vec(), b"two: 2".to_vec(), Vec::new()];
        let inputs = |name: &str| -> Vec<Vec<u8>> {
            let mut mutator = Mutator::new(name, &samples);
            (0..500).map(|_| mutator.next_input()).collect()
        };
        let first = inputs("name");
        assert_eq!(first, inputs("name"));
        assert_ne!(first, inputs("other"));
        assert_eq!(first[..3], samples);
        let different: std::collections::BTreeSet<_> = first.iter().collect();
        assert!(different.len() > 300, "{} of 500", different.len());
        assert!(first.iter().all(|input| input.len() <= LONGEST));
    }
}
