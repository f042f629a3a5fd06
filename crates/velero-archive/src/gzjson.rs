//! The compressed JSON files beside the tarball: one document, one trailing newline, gzip.

use std::io::{self, BufReader, BufWriter, Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::Bounded;
use crate::reader::damaged;
use crate::{Error, Result, go_json};

/// The largest decompressed document read by default, in bytes: what is told of a hundred thousand volumes takes less.
pub const DEFAULT_LIMIT: u64 = 128 << 20;
/// How much of a document is in memory at a time while it is read or written.
const BUFFER: usize = 64 << 10;

/// Compresses bytes that are already in their final form, such as a log.
pub fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).map_err(Error::Write)?;
    encoder.finish().map_err(Error::Write)
}

/// Decompresses bytes, refusing more than `limit`.
pub fn decompress(bytes: &[u8], limit: u64) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    let mut reader = Bounded::plain(MultiGzDecoder::new(bytes), limit);
    reader.read_to_end(&mut output).map_err(damaged)?;
    Ok(output)
}

/// Looks whether bytes can be decompressed, up to `limit`; nothing of it is kept.
pub fn check(bytes: &[u8], limit: u64) -> Result<()> {
    let mut reader = Bounded::plain(MultiGzDecoder::new(bytes), limit);
    io::copy(&mut reader, &mut io::sink()).map_err(damaged)?;
    Ok(())
}

/// Writes a value as a compressed document. Its text is never whole in memory: a list may name a million items.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    let encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut writer = BufWriter::with_capacity(BUFFER, encoder);
    go_json::to_writer(&mut writer, value)?;
    writer.write_all(b"\n").map_err(Error::Write)?;
    let encoder = writer.into_inner().map_err(|error| Error::Write(error.into_error()))?;
    encoder.finish().map_err(Error::Write)
}

/// Reads a compressed document, refusing more than `limit` decompressed bytes. Its text is never whole in memory: a few
/// bytes can say that they become gigabytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], limit: u64) -> Result<T> {
    let reader = BufReader::with_capacity(BUFFER, Bounded::plain(MultiGzDecoder::new(bytes), limit));
    serde_json::from_reader(reader).map_err(|error| match error.is_io() {
        true => damaged(io::Error::from(error)),
        false => Error::Json(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_document_ends_in_a_newline_and_reads_back() {
        let value = BTreeMap::from([("v1/Pod".to_owned(), vec!["web/a".to_owned()])]);
        let bytes = encode(&value).unwrap();
        assert_eq!(decompress(&bytes, 1000).unwrap(), b"{\"v1/Pod\":[\"web/a\"]}\n");
        assert_eq!(decode::<BTreeMap<String, Vec<String>>>(&bytes, 1000).unwrap(), value);
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit() {
        let bytes = compress(&vec![b' '; 10_000_000]).unwrap();
        assert!(bytes.len() < 20_000);
        assert!(matches!(decompress(&bytes, 1_000_000), Err(Error::TooLarge { limit: 1_000_000 })));
        assert!(matches!(check(&bytes, 1_000_000), Err(Error::TooLarge { limit: 1_000_000 })));
        check(&bytes, 20_000_000).unwrap();
        assert!(matches!(decode::<Vec<u8>>(&bytes, 1_000_000), Err(Error::TooLarge { limit: 1_000_000 })));
    }

    #[test]
    fn damage_is_named() {
        let mut bytes = encode(&["a", "b"]).unwrap();
        assert!(matches!(decompress(b"plain text", 100), Err(Error::NotGzip)));
        assert!(matches!(decompress(&bytes[..bytes.len() - 4], 100), Err(Error::Damaged(_))));
        let checksum = bytes.len() - 6;
        bytes[checksum] ^= 1;
        assert!(matches!(decompress(&bytes, 100), Err(Error::Damaged(_))));
        assert!(matches!(check(&bytes, 100), Err(Error::Damaged(_))));
        assert!(matches!(decode::<Vec<String>>(&bytes, 100), Err(Error::Damaged(_))), "also at the very end");
        assert!(matches!(decode::<Vec<String>>(b"plain text", 100), Err(Error::NotGzip)));
        let wrong = encode(&"text").unwrap();
        assert!(matches!(decode::<Vec<u8>>(&wrong, 100), Err(Error::Json(_))));
    }
}
