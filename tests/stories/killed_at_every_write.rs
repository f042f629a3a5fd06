//! The server may die right after any write: the next one brings everything to a true end.

use velero_testkit::{BoxKind, TestBox, harness};
use velero_tests::fault_matrix::{Fault, Matrix};

#[test]
fn every_piece_of_work_ends_after_one_restart_whenever_the_server_is_killed() {
    // What a run that broke off left would count as this run's.
    TestBox::down("killed-at-writes").unwrap();
    harness::run("killed-at-writes", BoxKind::ControlPlane, async |cluster| {
        let mut matrix = Matrix::start(&cluster, Fault::Kill).await.unwrap();
        matrix.backups().await.unwrap();
        matrix.restores().await.unwrap();
        matrix.deletions().await.unwrap();
        matrix.finish().unwrap();
    });
    TestBox::down("killed-at-writes").unwrap();
}
