//! Hostile input: every parser of what others wrote gets its samples, changed thousands of times. See
//! `velero_testkit::hostile`; the samples are kept in `corpus/`, a folder a parser. An input that made a parser stumble
//! is kept there too, or has a test of its own where the parser is.
//!
//! Parsers that only their crate can reach are struck there, with samples from the same corpus: the plugin wire and its
//! handshake (`velero-plugin`), manifests, challenges and tokens of registries (`velero-registry`), what CSI drivers and
//! data movers answer (`plugins/csi`), and what is sent to the port of the server (`velero-controllers`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod archive;
mod bounds;
mod items;
mod records;
mod repository;
mod rules;
