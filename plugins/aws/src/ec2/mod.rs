//! Requests to EC2 in the words of its query API.

mod answers;
mod client;
mod error;
mod query;

pub(crate) use answers::{
    CreateSnapshotResponse, CreateVolumeResponse, DescribeSnapshotsResponse, DescribeVolumesResponse, Done, Snapshot,
    Tag, Volume,
};
pub(crate) use client::{Client, Repeat};
pub(crate) use error::{Error, Trouble};
pub(crate) use query::Query;
