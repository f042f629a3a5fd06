//! Compresses contents where it pays, in the memory they lie in. Pure.
//!
//! ```text
//! a few pieces from all over ── shorter by a fifth? ── the beginning ── shorter by an eighth? ── the rest, over what is read
//! ```

use std::io;

use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation as _, OutBuffer};

use crate::compression::{HEADER, ZSTD_FASTEST};

/// The fastest level that also shortens what repeats nowhere but has few different bytes.
const LEVEL: i32 = 1;
/// How far back it looks for what repeats, as a power of two: further costs memory and finds little more at this level.
const WINDOW_LOG: u32 = 18;
/// Nothing shorter is tried.
const SHORTEST: usize = 128;
/// A sample is so many pieces of this length; contents not much longer are tried whole.
const PIECES: usize = 4;
const PIECE: usize = 4 << 10;
/// How much is compressed at once, and before the first byte is overwritten.
const STEP: usize = 256 << 10;
/// What the encoder may hold back of a step for the next.
const HELD_BACK: usize = 128 << 10;

/// The memory of one compression after the other: about one mebibyte for long contents.
pub(crate) struct Compressor {
    encoder: Encoder<'static>,
    output: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> io::Result<Self> {
        let mut encoder = Encoder::new(LEVEL)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        Ok(Self { encoder, output: Vec::new() })
    }

    /// Puts `header id ‖ compressed stream` in the place of a content and says how long it is. `None` where that does not
    /// pay; then the content is as it was.
    pub(crate) fn compress_in_place(&mut self, data: &mut [u8]) -> io::Result<Option<usize>> {
        if data.len() < SHORTEST || !self.promises(data)? {
            return Ok(None);
        }
        self.begin(data.len())?;
        let (mut read, mut written) = (0, 0);
        while read < data.len() {
            let step = STEP.min(data.len() - read);
            let is_last = read + step == data.len();
            let length = self.encode(&data[read..read + step], read == 0, is_last)?;
            if read == 0 {
                // From here on the stream stays behind what is read: blocks that cannot be compressed become 3 bytes longer.
                if HEADER + length > step / 8 * 7 {
                    return Ok(None);
                }
                data[..HEADER].copy_from_slice(&ZSTD_FASTEST.to_be_bytes());
                written = HEADER;
            }
            read += step;
            let room = data[written..read].get_mut(..length);
            room.ok_or_else(|| io::Error::other("it grew"))?.copy_from_slice(&self.output[..length]);
            written += length;
        }
        Ok(Some(written))
    }

    /// Whether a few pieces from all over become shorter by a fifth: a cheap look, for most of what does not pay.
    fn promises(&mut self, data: &[u8]) -> io::Result<bool> {
        if data.len() < 2 * PIECES * PIECE {
            return Ok(true);
        }
        let mut sample = [0; PIECES * PIECE];
        let distance = (data.len() - PIECE) / (PIECES - 1);
        for (number, piece) in sample.chunks_mut(PIECE).enumerate() {
            piece.copy_from_slice(&data[number * distance..][..PIECE]);
        }
        self.begin(sample.len())?;
        Ok(self.encode(&sample, false, true)? <= sample.len() / 5 * 4)
    }

    /// A new stream of so many bytes.
    fn begin(&mut self, length: usize) -> io::Result<()> {
        self.encoder.reinit()?;
        self.encoder.set_pledged_src_size(Some(length as u64))?;
        let room = zstd::zstd_safe::compress_bound(length.min(STEP) + HELD_BACK);
        if self.output.len() < room {
            self.output.resize(room, 0);
        }
        Ok(())
    }

    /// Compresses the next bytes of the stream into the output.
    fn encode(&mut self, bytes: &[u8], flush: bool, is_last: bool) -> io::Result<usize> {
        let mut input = InBuffer::around(bytes);
        let mut output = OutBuffer::around(self.output.as_mut_slice());
        while input.pos() < bytes.len() {
            let before = (input.pos(), output.pos());
            self.encoder.run(&mut input, &mut output)?;
            if (input.pos(), output.pos()) == before {
                return Err(io::Error::other("it found no room"));
            }
        }
        let left = match (is_last, flush) {
            (true, _) => self.encoder.finish(&mut output, true)?,
            (false, true) => self.encoder.flush(&mut output)?,
            (false, false) => 0,
        };
        if left > 0 {
            return Err(io::Error::other("it found no room"));
        }
        Ok(output.pos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::decompress;
    use crate::crypto::fill_random;

    fn text(length: usize) -> Vec<u8> {
        let words = (0_u64..).flat_map(|number| format!("{:x} words ", number.wrapping_mul(0x9e37_79b9)).into_bytes());
        words.take(length).collect()
    }

    fn random(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        fill_random(&mut bytes);
        bytes
    }

    #[test]
    fn only_what_becomes_shorter_is_compressed_and_it_comes_back() {
        let mut compressor = Compressor::new().unwrap();
        let lengths = [128, 129, 4096, 32_767, 32_768, STEP - 1, STEP, STEP + 1, 3 * STEP + 77, 8 << 20];
        // Shorter ones have been met before longer ones, and the other way round.
        for length in lengths.into_iter().chain(lengths.into_iter().rev()) {
            // A few words are hardly longer than the header of a stream.
            for plain in [Some(text(length)).filter(|_| length >= 4096), Some(vec![0; length])].into_iter().flatten() {
                let mut data = plain.clone();
                let packed = compressor.compress_in_place(&mut data).unwrap().unwrap();
                assert!(packed < length * 7 / 8, "{packed} of {length}");
                assert!(decompress(ZSTD_FASTEST, &data[..packed], length).unwrap() == plain, "{length}");
                assert!(decompress(ZSTD_FASTEST, &data[..packed], length - 1).is_err(), "longer than announced");
                assert!(decompress(ZSTD_FASTEST, &data[..packed], length + 1).is_err(), "shorter than announced");
                assert!(decompress(0x1000, &data[..packed], length).is_err(), "another header");
            }
            let plain = random(length);
            let mut data = plain.clone();
            assert_eq!(compressor.compress_in_place(&mut data).unwrap(), None);
            assert!(data == plain, "what is not compressed stays as it is");
        }
        for length in [0, 1, 127] {
            assert_eq!(compressor.compress_in_place(&mut vec![0; length]).unwrap(), None);
        }
    }

    #[test]
    fn a_content_that_promises_more_than_it_holds_comes_back_too() {
        let mut compressor = Compressor::new().unwrap();
        // Text at the beginning and where samples are taken, and nothing else that could be compressed.
        for begins_with in [STEP, 40 << 10] {
            let mut plain = random(8 << 20);
            let words = text(begins_with);
            plain[..begins_with].copy_from_slice(&words);
            let distance = (plain.len() - PIECE) / (PIECES - 1);
            for number in 1..PIECES {
                plain[number * distance..][..PIECE].copy_from_slice(&words[..PIECE]);
            }
            let mut data = plain.clone();
            match compressor.compress_in_place(&mut data).unwrap() {
                Some(packed) => {
                    assert!(packed < plain.len(), "{packed}");
                    assert!(decompress(ZSTD_FASTEST, &data[..packed], plain.len()).unwrap() == plain);
                }
                None => assert!(data == plain && begins_with < STEP),
            }
        }
    }

    #[test]
    fn bytes_of_few_kinds_are_worth_it_and_a_random_middle_is_not() {
        let mut compressor = Compressor::new().unwrap();
        let mut letters = random(1 << 20);
        letters.iter_mut().for_each(|byte| *byte = *byte & 0x0f | 0x60);
        let packed = compressor.compress_in_place(&mut letters).unwrap().unwrap();
        assert!(packed < (1 << 20) * 6 / 10, "{packed}");
        let mut framed = random(1 << 20);
        framed[..PIECE].fill(0);
        assert_eq!(compressor.compress_in_place(&mut framed).unwrap(), None);
    }
}
