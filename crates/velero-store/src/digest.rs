//! The digest of an upload, in the form S3 shows as an ETag.

use bytes::Bytes;
use futures::stream::TryStreamExt;
use md5::{Digest, Md5};

use crate::ByteStream;

/// The digest of one part.
pub(crate) type PartDigest = [u8; 16];

/// The digest of one part's bytes.
pub(crate) fn part_digest(bytes: &[u8]) -> PartDigest {
    Md5::digest(bytes).into()
}

/// What an object consists of: its size and the digest of each part it was sent in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectDigest {
    pub(crate) size: u64,
    pub(crate) parts: Vec<PartDigest>,
    /// Whether the object was sent as a multipart upload, even if in a single part.
    pub(crate) multipart: bool,
}

impl ObjectDigest {
    /// The digest of an object sent in one request.
    pub(crate) fn whole(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, parts: vec![part_digest(bytes)], multipart: false }
    }

    /// The ETag a store gives this object if it follows S3 and does not encrypt with keys of the customer.
    pub(crate) fn etag(&self) -> String {
        if !self.multipart {
            return self.parts.first().map(|digest| hex(digest)).unwrap_or_default();
        }
        let digest = Md5::digest(self.parts.concat());
        format!("{}-{}", hex(&digest), self.parts.len())
    }

    /// Whether an ETag proves that the store holds these bytes; if not, it may still hold them.
    pub(crate) fn is_proven_by(&self, etag: &str) -> bool {
        etag.trim_matches('"').eq_ignore_ascii_case(&self.etag())
    }

    /// Reads a stream and gives its digest in the same parts as this one.
    pub(crate) async fn of_stream(&self, mut stream: ByteStream, part_size: usize) -> std::io::Result<Self> {
        let part_size = if self.multipart { part_size } else { usize::MAX };
        let mut found = Self { size: 0, parts: Vec::new(), multipart: self.multipart };
        let (mut hasher, mut filled) = (Md5::new(), 0);
        while let Some(mut chunk) = stream.try_next().await? {
            found.size += chunk.len() as u64;
            while !chunk.is_empty() {
                let piece: Bytes = chunk.split_to(chunk.len().min(part_size - filled));
                filled += piece.len();
                hasher.update(&piece);
                if filled == part_size {
                    found.parts.push(hasher.finalize_reset().into());
                    filled = 0;
                }
            }
        }
        if filled > 0 || found.parts.is_empty() {
            found.parts.push(hasher.finalize().into());
        }
        Ok(found)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream::{self, StreamExt};

    #[test]
    fn etags_are_those_of_s3() {
        assert_eq!(ObjectDigest::whole(b"").etag(), "d41d8cd98f00b204e9800998ecf8427e");
        let parts = vec![part_digest(b"hello"), part_digest(b"world")];
        let digest = ObjectDigest { size: 10, parts, multipart: true };
        assert_eq!(digest.etag(), "065947336a2f2a95ba8899f3675c3be6-2");
        assert!(digest.is_proven_by("\"065947336A2F2A95BA8899F3675C3BE6-2\""));
        assert!(!digest.is_proven_by("0x8DC1"));
    }

    #[tokio::test]
    async fn a_stream_is_digested_in_the_same_parts_however_it_is_cut() {
        let content: Vec<u8> = (0..25u8).collect();
        let parts = content.chunks(10).map(part_digest).collect();
        let sent = ObjectDigest { size: 25, parts, multipart: true };
        for cut in [1, 3, 10, 25] {
            let chunks: Vec<_> = content.chunks(cut).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
            let found = sent.of_stream(stream::iter(chunks).boxed(), 10).await.unwrap();
            assert_eq!(found, sent, "cut at {cut}");
        }
        let damaged = stream::iter([Ok(Bytes::from_static(&[9; 25]))]).boxed();
        assert_ne!(sent.of_stream(damaged, 10).await.unwrap(), sent);
    }
}
