//! A project of OpenShift moves to another cluster with its images, and comes back after it was lost: our server, with the
//! actions built in.

use velero_testkit::Edition;
use velero_tests::openshift::moves_and_comes_back;

#[test]
fn a_project_moves_to_another_cluster_and_comes_back_where_it_was() {
    moves_and_comes_back("project-source", "project-target", Edition::Ours).unwrap();
}
