//! Hostile input: every parser of what others wrote gets its samples, changed thousands of times. See
//! `velero_testkit::hostile`; the samples are in `corpus/`, those of binary formats are made on the way. An input that
//! made a parser stumble is kept there and has a test of its own where the parser is.
//!
//! Parsers that only their crate can reach are struck there: the plugin wire and its handshake (`velero-plugin`), the
//! manifests of registries (`velero-registry`), the objects of CSI (`plugins/csi`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod archive;
mod bounds;
mod items;
mod records;
mod repository;
mod rules;

use std::path::Path;

use velero_testkit::hostile::{Parser, samples_in};

/// A parser whose samples are in a folder of the corpus.
fn parser(name: &'static str, folder: &str, parse: fn(&[u8])) -> Parser {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile/corpus");
    Parser { name, samples: samples_in(&corpus.join(folder)), parse }
}

/// The usual run and the thorough one over some parsers.
macro_rules! strike_all {
    ($parsers:ident) => {
        #[test]
        fn thousands_of_changed_samples_are_read_or_refused() {
            for parser in $parsers() {
                velero_testkit::hostile::strike(&parser, velero_testkit::hostile::ROUNDS);
            }
        }

        #[test]
        #[ignore = "many times the usual run"]
        fn very_many_changed_samples_are_read_or_refused() {
            for parser in $parsers() {
                velero_testkit::hostile::strike(&parser, velero_testkit::hostile::THOROUGH_ROUNDS);
            }
        }
    };
}
use strike_all;
