//! What a compressed content is compressed with. Pure.

use std::io::{self, Read};

/// The id of a content that is stored as it is.
pub const NONE: u32 = 0;
/// What we write: the fastest level of zstd.
pub const ZSTD_FASTEST: u32 = 0x1101;

/// How many bytes come before the compressed stream.
pub(crate) const HEADER: usize = 4;
/// Up to here a content is decompressed in one go.
const AT_ONCE: usize = 16 << 20;

/// Why a content cannot be decompressed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompressionError {
    /// There is no whole header.
    #[error("it is shorter than its header")]
    NoHeader,
    /// Header and index say different things.
    #[error("its header says compression 0x{header:x} and the index 0x{index:x}")]
    OtherHeader { header: u32, index: u32 },
    /// It is known and not read here.
    #[error("it is compressed with {0}, which is not supported")]
    NotSupported(&'static str),
    /// Nobody knows it.
    #[error("it is compressed with 0x{0:x}, which is not known")]
    Unknown(u32),
    /// It has another length than was announced.
    #[error("it decompresses to other than the {0} bytes of its index entry")]
    OtherLength(usize),
    /// The stream is damaged.
    #[error(transparent)]
    Stream(#[from] io::Error),
}

/// The content behind `header id ‖ compressed stream`, which must be `length` bytes long.
pub(crate) fn decompress(compression: u32, body: &[u8], length: usize) -> Result<Vec<u8>, CompressionError> {
    let (header, stream) = body.split_first_chunk::<HEADER>().ok_or(CompressionError::NoHeader)?;
    let header = u32::from_be_bytes(*header);
    if header != compression {
        return Err(CompressionError::OtherHeader { header, index: compression });
    }
    match compression {
        0x1000..=0x1002 | 0x1300..=0x1302 => read_exactly(flate2::read::MultiGzDecoder::new(stream), length),
        0x1100..=0x1103 if length <= AT_ONCE => {
            let plain = zstd::bulk::decompress(stream, length)?;
            if plain.len() == length { Ok(plain) } else { Err(CompressionError::OtherLength(length)) }
        }
        0x1100..=0x1103 => read_exactly(zstd::stream::read::Decoder::with_buffer(stream)?, length),
        0x1500..=0x1502 => read_exactly(flate2::read::DeflateDecoder::new(stream), length),
        0x1200..=0x1203 => Err(CompressionError::NotSupported("s2")),
        0x1400 => Err(CompressionError::NotSupported("lz4")),
        other => Err(CompressionError::Unknown(other)),
    }
}

/// Never allocates for more than was announced: a few bytes can say that they become gigabytes.
fn read_exactly(stream: impl Read, length: usize) -> Result<Vec<u8>, CompressionError> {
    let mut plain = Vec::with_capacity(length.min(AT_ONCE));
    let read = stream.take(length as u64 + 1).read_to_end(&mut plain)?;
    if read != length {
        return Err(CompressionError::OtherLength(length));
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_every_length_and_in_several_frames_are_read() {
        for length in [0, 100, AT_ONCE, AT_ONCE + 1] {
            let plain = vec![7; length];
            let (one, other) = plain.split_at(length / 3);
            let body = [
                &ZSTD_FASTEST.to_be_bytes()[..],
                &zstd::bulk::compress(one, 1).unwrap(),
                &zstd::bulk::compress(other, 1).unwrap(),
            ]
            .concat();
            assert!(decompress(ZSTD_FASTEST, &body, length).unwrap() == plain, "{length}");
            assert!(decompress(ZSTD_FASTEST, &body, length + 1).is_err());
            assert!(length == 0 || decompress(ZSTD_FASTEST, &body, length - 1).is_err());
        }
    }

    #[test]
    fn unknown_compressions_are_refused_by_name() {
        for (id, name) in [(0x1200_u32, "s2"), (0x1400, "lz4"), (0x9999, "0x9999")] {
            let body = [&id.to_be_bytes()[..], b"xxxx"].concat();
            assert!(decompress(id, &body, 4).unwrap_err().to_string().contains(name));
        }
    }
}
