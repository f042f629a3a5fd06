//! The stories of the whole system, one file a story. One binary: linking takes longer than most of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod book_links;
mod book_pages;
mod box_block;
mod box_openshift;
mod box_storage;
mod box_works;
mod cancelled;
mod chart;
mod chart_from_velero;
mod chart_values;
mod csi_snapshots;
mod debug_bundle;
mod faulty_store;
mod in_cluster;
mod install;
mod install_bad_input;
mod killed_at_every_write;
mod lost_answers;
mod machine_as_it_was;
mod monitored;
mod monitoring;
mod no_secret_is_told;
mod node_agent;
mod node_agent_config;
mod openshift_project;
mod other_kubernetes;
mod page_in_a_browser;
mod peer_backs_up_and_restores;
mod peer_commands;
mod peer_cross_restore;
mod peer_csi;
mod peer_custom_resources;
mod peer_filters;
mod peer_install;
mod peer_migration;
mod peer_movers;
mod peer_openshift;
mod peer_plugins;
mod peer_reads_bucket;
mod peer_restores;
mod peer_side_by_side;
mod peer_snapshots;
mod peer_volume_copies;
mod peer_volume_devices;
mod peer_volume_moves;
mod peer_volume_scenarios;
mod plugin_hardships;
mod release;
mod repository_peer;
mod repository_power_cut;
mod repository_s3;
mod repository_writers;
mod restore_bad_input;
mod restore_dry_run;
mod restore_order;
mod restore_progress;
mod restore_rate;
mod resumed;
mod server_status;
mod traced;
mod two_clusters_one_bucket;
mod two_servers;
mod volume_kills;

#[path = "../../crates/velero-repo/tests/sample/mod.rs"]
mod sample;
#[path = "../../crates/velero-repo/tests/trees/mod.rs"]
mod trees;
