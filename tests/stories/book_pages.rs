//! The commands of the book do what the book says: a reader types them, page by page, at clusters of their own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use velero_tests::book::{Book, Reader, Tally};

/// The page that sets a cluster up, which the others go on with.
const FIRST: &str = "docs/start.md";
/// Pages that begin with clusters of their own.
const DISASTER: &str = "docs/disaster.md";
const MIGRATION: &str = "docs/migration.md";

/// One page at a time: clusters with volumes are large.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_first_page_takes_a_cluster_from_nothing_to_a_restore() {
    let _turn = turn();
    let book = Book::read().unwrap();
    let mut reader = Reader::new("start").unwrap();
    let said = reader.read(book.page(FIRST).unwrap()).unwrap().concat();
    for expected in [
        "Velero is installed!",
        "Backup completed with status: Completed",
        "Restore completed with status: Completed",
        "a page of the shop",
    ] {
        assert!(said.contains(expected), "{expected:?} was not said: {said}");
    }
    let tally = reader.done().unwrap();
    println!("{tally}");
}

/// Reads a page that begins with clusters of its own; at its end the shop is back.
fn read_alone(page: &str, name: &'static str) -> Tally {
    let _turn = turn();
    let book = Book::read().unwrap();
    let mut reader = Reader::new(name).unwrap();
    let said = reader.read(book.page(page).unwrap()).unwrap();
    let last = said.last().unwrap();
    assert!(last.contains("a page of the shop"), "{page}: the shop is not back: {last}");
    reader.done().unwrap()
}

#[test]
#[ignore = "some two minutes: two clusters with volumes"]
fn a_cluster_is_lost_with_its_volumes_and_another_takes_over_from_the_bucket() {
    println!("{}", read_alone(DISASTER, "disaster"));
}

#[test]
#[ignore = "some two minutes: two clusters"]
fn a_namespace_moves_to_another_cluster() {
    println!("{}", read_alone(MIGRATION, "moved"));
}

#[test]
#[ignore = "some three minutes: the whole book but for disasters and migrations"]
fn every_command_of_the_book_that_can_run_runs() {
    let _turn = turn();
    let book = Book::read().unwrap();
    let mut reader = Reader::new("book").unwrap();
    for page in book.in_order().filter(|page| ![DISASTER, MIGRATION].iter().any(|alone| page.path.ends_with(alone))) {
        reader.read(page).unwrap();
    }
    println!("{}", reader.done().unwrap());
}
