//! The plugin binary for OpenShift under the original Velero: the same story as under our server.

use velero_testkit::Edition;
use velero_tests::openshift::moves_and_comes_back;

#[test]
fn the_plugin_binary_moves_a_project_and_brings_it_back_under_the_original() {
    moves_and_comes_back("peer-project-source", "peer-project-target", Edition::Peer).unwrap();
}
