use std::io::Cursor;

use super::*;
use crate::hex;

const SAMPLE: &str = "02110010000000010000000101000000006dc6dfbe58108dad582185ca85cdf27b596afa46d9000000200001ba0001d60000360000003d0000000003007133353037366138393564303465306132623733343436626663316436363733342d7365336637616236653662663434356633313437";
const PACK: &str = "q35076a895d04e0a2b73446bfc1d66734-se3f7ab6e6bf445f3147";

fn raw(bytes: Vec<u8>) -> crate::Result<RawIndex> {
    RawIndex::open(IndexBytes::Memory(bytes.into()), "xn0_test")
}

fn sample_entry() -> ContentEntry {
    ContentEntry {
        id: "mc6dfbe58108dad582185ca85cdf27b59".parse().unwrap(),
        timestamp: 1_794_787_033,
        deleted: false,
        pack: 0,
        offset: 32,
        packed_length: 470,
        original_length: 442,
        compression: 0,
        format_version: 3,
        key_id: 0,
    }
}

fn entry(number: u32, timestamp: u32) -> ContentEntry {
    let mut hash = [0; 16];
    hash[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
    ContentEntry { id: crate::ContentId::data(hash), timestamp, offset: number, ..sample_entry() }
}

#[test]
fn an_index_blob_of_velero_opens_reads_and_is_written_again_byte_for_byte() {
    let sealed = "f579dfea5ca726effb2677159fb09c3cd49eb4c3c5b0debfa6dfed5f9a33746db1b3ea5559004c877143e776240bf2015587a27e7382a8457312c18e857ebf7621fd52dfd40c5eb70cb04b9acc173284ec54bd62f044c6a37cb4be30f0e98ee742c550ef18f26fad61aef7626bb6f934d4f3b84ce39f8b0a5f645123d97fd1db813579474e98488b537af36d688d5c";
    let vector = crate::blob_name::hash_in("xn0_58c1a2849da1a3700028bc1066016d55-se3f7ab6e6bf445f3147-c1").unwrap();
    let mut sealed = hex::decode(sealed).unwrap();
    let plain = crate::testing::sealer().open_in_place(&vector, &mut sealed).unwrap().to_vec();
    assert_eq!(hex::encode(&plain), SAMPLE);
    let index = raw(plain.clone()).unwrap();
    assert_eq!(index.packs(), [Box::from(PACK)]);
    assert_eq!(index.entries().collect::<crate::Result<Vec<_>>>().unwrap(), [sample_entry()]);
    assert_eq!(build_index(vec![(sample_entry(), PACK.to_owned())]).unwrap(), plain);
}

#[test]
fn entries_are_only_as_wide_as_they_must_be() {
    let plain = sample_entry();
    let long = ContentEntry { original_length: 200 << 20, packed_length: 100 << 20, ..entry(1, 1) };
    let compressed = ContentEntry { compression: 0x1101, ..entry(2, 1) };
    for (entries, size) in [(vec![plain], 16), (vec![plain, compressed], 17), (vec![plain, long], 19)] {
        let built = build_index(entries.iter().map(|entry| (*entry, PACK.to_owned())).collect()).unwrap();
        assert_eq!(built[3], size);
        let mut expected = entries;
        expected.sort_by_key(|entry| entry.id);
        assert_eq!(raw(built).unwrap().entries().collect::<crate::Result<Vec<_>>>().unwrap(), expected);
    }
    let many: Vec<_> = (0..65_537).map(|number| (entry(number, 1), format!("p{number}"))).collect();
    let built = build_index(many).unwrap();
    assert_eq!(built[3], 18);
    let index = raw(built).unwrap();
    for found in index.entries() {
        let found = found.unwrap();
        assert_eq!(index.pack_name(found.pack), format!("p{}", found.offset));
    }
}

#[test]
fn the_later_then_the_living_then_the_greater_pack_stands() {
    let old = entry(1, 10);
    let new = entry(1, 11);
    let deleted = ContentEntry { deleted: true, ..new };
    assert!(new.wins("a", &old, "z"));
    assert!(deleted.wins("a", &old, "z"), "a later deletion stands");
    assert!(new.wins("a", &deleted, "z"));
    assert!(new.wins("z", &new, "a") && !new.wins("a", &new, "z"));
    assert!(
        deleted.is_gone(Some(11)) && !deleted.is_gone(Some(10)) && !deleted.is_gone(None) && !new.is_gone(Some(99))
    );
}

#[test]
fn merged_indexes_are_searched_and_hold_what_stands() {
    let mut merger = IndexMerger::new(Some(5));
    for run in 0..300_u32 {
        let entries = (0..100).map(|number| (entry(run * 50 + number, run + 1), format!("p{run}"))).collect();
        merger.add(raw(build_index(entries).unwrap()).unwrap()).unwrap();
    }
    let gone = ContentEntry { deleted: true, ..entry(0, 4) };
    merger.add(raw(build_index(vec![(gone, "p0".to_owned())]).unwrap()).unwrap()).unwrap();
    let index = merger.finish().unwrap();
    assert_eq!(index.len(), 299 * 50 + 100 - 1);
    assert_eq!(index.find(gone.id).unwrap(), None, "the watermark has passed its deletion");
    for number in 1..15_050 {
        let found = index.find(entry(number, 0).id).unwrap().unwrap();
        let run = (number / 50).min(299);
        assert_eq!(
            (found.offset, found.timestamp, index.pack_name(found.pack)),
            (number, run + 1, &*format!("p{run}"))
        );
    }
    assert_eq!(index.find(entry(99_999, 0).id).unwrap(), None);
    assert_eq!(index.entries_with_prefix('m').count(), 0);
}

#[test]
fn the_entries_of_a_prefix_are_found_among_others() {
    let with = |letter: char, number: u32| {
        let id = crate::ContentId::with_prefix(letter, *entry(number, 0).id.hash()).unwrap();
        (ContentEntry { id, ..entry(number, 1) }, "q1".to_owned())
    };
    let mut entries: Vec<_> = (0..1000).map(|number| (entry(number, 1), "p1".to_owned())).collect();
    for letter in ['k', 'm', 'x'] {
        entries.extend((0..300).map(|number| with(letter, number)));
    }
    let index = Index::new(raw(build_index(entries).unwrap()).unwrap()).unwrap();
    for (letter, count) in [('g', 0), ('k', 300), ('m', 300), ('x', 300), ('z', 0)] {
        assert_eq!(index.entries_with_prefix(letter).count(), count, "{letter}");
    }
}

#[test]
fn entries_out_of_order_are_not_written_and_not_read() {
    let mut writer = IndexWriter::new(Cursor::new(Vec::new()), EntrySize::LEAST).unwrap();
    writer.push(&sample_entry(), PACK).unwrap();
    assert!(writer.push(&sample_entry(), PACK).is_err());
    let two = build_index(vec![(entry(0, 1), "p".to_owned()), (entry(1, 1), "p".to_owned())]).unwrap();
    let mut swapped = two.clone();
    swapped[17..50].copy_from_slice(&two[50..83]);
    swapped[50..83].copy_from_slice(&two[17..50]);
    assert!(Index::new(raw(swapped).unwrap()).is_err());
}

#[test]
fn cut_and_flipped_indexes_never_panic() {
    let sample = hex::decode(SAMPLE).unwrap();
    for length in 0..sample.len() {
        assert!(raw(sample[..length].to_vec()).is_err(), "{length}");
    }
    for bit in 0..sample.len() * 8 {
        let mut flipped = sample.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(index) = raw(flipped) {
            let _ = index.entries().collect::<crate::Result<Vec<_>>>();
        }
    }
}

#[test]
fn behind_a_damaged_entry_there_is_nothing() {
    let built = build_index((0..8).map(|number| (entry(number, 1), PACK.to_owned())).collect()).unwrap();
    let mut damaged = built;
    // The number of the pack of the third entry.
    let row = crate::ContentId::KEY_SIZE + 16;
    damaged[HEADER + 2 * row + crate::ContentId::KEY_SIZE + 14] = 0x80;
    let entries: Vec<_> = raw(damaged).unwrap().entries().take(100).collect();
    assert_eq!((entries.len(), entries.iter().filter(|entry| entry.is_err()).count()), (3, 1));
}
