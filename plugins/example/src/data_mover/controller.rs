//! The controller: does what `DataMove` objects ask for. It moves nothing but time.

use std::convert::Infallible;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use velero_cluster::{Cluster, Error, Result};
use velero_plugin::item::text;

use super::data_moves;
use crate::behaviour::duration;

/// How often all moves are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The size every move has.
const TOTAL: i64 = 1 << 20;

/// Looks after all moves of the cluster until that fails.
pub async fn control(cluster: &Cluster) -> Result<Infallible> {
    loop {
        let pages = cluster.list_pages(&data_moves(), None, None, 500).map_ok(|page| page.items);
        let items: Vec<_> = pages.try_collect().await?;
        for item in items.iter().flatten() {
            let mut object = item.to_value()?;
            let Some(status) = next_status(&object, Timestamp::now()) else {
                continue;
            };
            object["status"] = status;
            match cluster.update_status(&data_moves(), item.namespace(), &object).await {
                // Somebody was faster; the next round sees what they did.
                Err(Error::Conflict(_) | Error::NotFound(_)) | Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The status a move should have now; `None` when it has ended.
fn next_status(object: &Value, now: Timestamp) -> Option<Value> {
    let status = &object["status"];
    if !matches!(text(status, "/phase"), "" | "InProgress") {
        return None;
    }
    let started = text(status, "/started").parse().unwrap_or(now);
    let (course, time) = text(object, "/spec/course").split_once('=').unwrap_or_default();
    let time = duration(time).unwrap_or_default();
    let passed = Duration::try_from(now.duration_since(started)).unwrap_or_default();
    let (phase, message) = match course {
        _ if object.pointer("/spec/cancel") == Some(&json!(true)) => ("Cancelled", "the move was cancelled"),
        "fails-after" if passed >= time => ("Failed", "the claim asked for a failing move"),
        _ if passed >= time => ("Completed", ""),
        _ => ("InProgress", ""),
    };
    let done = if time.is_zero() { 1.0 } else { (passed.as_secs_f64() / time.as_secs_f64()).min(1.0) };
    Some(json!({
        "phase": phase,
        "message": message,
        "bytesDone": (done * TOTAL as f64) as i64,
        "totalBytes": TOTAL,
        "started": started.to_string(),
        "updated": now.to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_goes_its_course() {
        let started: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (course, cancel, after, phase, done) in [
            ("takes=4s", false, 1, "InProgress", TOTAL / 4),
            ("takes=4s", false, 4, "Completed", TOTAL),
            ("fails-after=4s", false, 3, "InProgress", TOTAL / 4 * 3),
            ("fails-after=4s", false, 4, "Failed", TOTAL),
            ("takes=4s", true, 1, "Cancelled", TOTAL / 4),
        ] {
            let object = json!({
                "spec": {"course": course, "cancel": cancel},
                "status": {"phase": "InProgress", "started": started.to_string()},
            });
            let status = next_status(&object, started + Duration::from_secs(after)).unwrap();
            assert_eq!((&status["phase"], &status["bytesDone"]), (&json!(phase), &json!(done)), "{course} {after}");
        }
    }

    #[test]
    fn a_move_that_has_ended_is_left_alone() {
        for phase in ["Completed", "Failed", "Cancelled"] {
            let object = json!({"spec": {"course": "takes=1s"}, "status": {"phase": phase}});
            assert_eq!(next_status(&object, Timestamp::now()), None);
        }
    }
}
