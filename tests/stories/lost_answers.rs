//! The answer to any write may be lost on its way back from the API server: everything still comes to a true end.

use velero_testkit::{BoxKind, TestBox, harness};
use velero_tests::fault_matrix::{Fault, Matrix};

#[test]
fn every_piece_of_work_ends_without_a_restart_whichever_answer_is_lost() {
    // What a run that broke off left would count as this run's.
    TestBox::down("lost-answers").unwrap();
    harness::run("lost-answers", BoxKind::ControlPlane, async |cluster| {
        let mut matrix = Matrix::start(&cluster, Fault::LostAnswer).await.unwrap();
        matrix.backups().await.unwrap();
        matrix.restores().await.unwrap();
        matrix.deletions().await.unwrap();
        matrix.finish().unwrap();
    });
    TestBox::down("lost-answers").unwrap();
}
