//! The details of a server.

use super::Manner;
use super::describer::{Describer, NONE};
use crate::output::{Availability, LocationDetails, Part, ServerDetails, Work};

/// Describes a server.
pub(crate) fn describe_server(details: &ServerDetails, manner: &Manner) -> String {
    let mut describer = Describer::new(manner);
    describer.field("Deployment", deployment(&details.deployment));
    describer.field("Node agents", node_agents(&details.node_agents));
    describer.gap();
    match &details.locations {
        Part::Unknown { error } => describer.field("Backup storage locations", unknown(error)),
        Part::Known(locations) => section(&mut describer, "Backup storage locations", locations, location),
    }
    section(&mut describer, "Plugins", &details.plugins, |describer, plugin| {
        describer.line(format_args!("  {}\t{}", plugin.name, plugin.kind));
    });
    match &details.work {
        Part::Unknown { error } => describer.field("Work", unknown(error)),
        Part::Known(overview) => {
            section(&mut describer, &format!("Queue ({} waiting)", overview.queue.len()), &overview.queue, work);
            section(&mut describer, "Running", &overview.running, work);
            section(&mut describer, "Last errors", &overview.last_errors, work);
        }
    }
    describer.finish()
}

fn unknown(error: &str) -> String {
    format!("<unknown: {error}>")
}

fn deployment(part: &Part<Option<Availability>>) -> String {
    match part {
        Part::Unknown { error } => unknown(error),
        Part::Known(None) => "<none>: the server runs elsewhere, whether it does is not known".to_owned(),
        Part::Known(Some(pods)) if pods.ready == 0 => {
            format!("{}: 0 of {} pods available, the status may be out of date", pods.name, pods.desired)
        }
        Part::Known(Some(pods)) => format!("{}: {} of {} pods available", pods.name, pods.ready, pods.desired),
    }
}

fn node_agents(part: &Part<Vec<Availability>>) -> String {
    match part {
        Part::Unknown { error } => unknown(error),
        Part::Known(sets) if sets.is_empty() => NONE.to_owned(),
        Part::Known(sets) => {
            let texts: Vec<String> =
                sets.iter().map(|set| format!("{}: {} of {} ready", set.name, set.ready, set.desired)).collect();
            texts.join(", ")
        }
    }
}

fn section<T>(describer: &mut Describer<'_>, title: &str, items: &[T], line: impl Fn(&mut Describer<'_>, &T)) {
    if items.is_empty() {
        describer.field(title, NONE);
    } else {
        describer.line(format_args!("{title}:"));
        items.iter().for_each(|item| line(describer, item));
    }
    describer.gap();
}

fn location(describer: &mut Describer<'_>, location: &LocationDetails) {
    let validated = describer.manner.clock.text_or(location.last_validation.as_ref(), "never");
    let (name, phase) = (&location.name, &location.phase);
    describer.line(format_args!("  {name}\t{phase}\tvalidated: {validated}"));
    message(describer, &location.message);
}

fn work(describer: &mut Describer<'_>, work: &Work) {
    let clock = &describer.manner.clock;
    let time = work.time.as_ref().map(|time| format!("\t{}", clock.text(time))).unwrap_or_default();
    describer.line(format_args!("  {} {}\t{}{time}", work.kind, work.name, work.phase));
    message(describer, &work.message);
}

fn message(describer: &mut Describer<'_>, text: &str) {
    for line in text.lines() {
        describer.line(format_args!("    {line}"));
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::PluginInfo;

    use super::*;
    use crate::output::server_details::Standing;
    use crate::output::{Clock, WorkOverview};
    use crate::printer::Style;

    fn text(details: &ServerDetails) -> String {
        describe_server(details, &Manner { clock: Clock::system(), style: Style::default(), details: true })
    }

    #[test]
    fn what_is_there_is_listed_and_what_went_wrong_stands_below() {
        let location = |name: &str, phase: &str, message: &str| LocationDetails {
            name: name.to_owned(),
            phase: phase.to_owned(),
            last_validation: None,
            message: message.to_owned(),
        };
        let plugin = PluginInfo { name: "velero.io/pod".into(), kind: "BackupItemAction".into(), ..Default::default() };
        let failed = Work {
            kind: "backup",
            name: "b1".to_owned(),
            phase: "Failed".to_owned(),
            time: None,
            message: "the store is full".to_owned(),
            standing: Standing::Failed,
        };
        let details = ServerDetails {
            deployment: Part::Known(Some(Availability { name: "velero".into(), ready: 1, desired: 1 })),
            node_agents: Part::Known(vec![Availability { name: "node-agent".into(), ready: 2, desired: 3 }]),
            locations: Part::Known(vec![
                location("default", "Available", ""),
                location("far", "Unavailable", "no answer"),
            ]),
            plugins: vec![plugin],
            work: Part::Known(WorkOverview::from(vec![failed])),
        };
        let expected = "\
Deployment:   velero: 1 of 1 pods available
Node agents:  node-agent: 2 of 3 ready

Backup storage locations:
  default  Available    validated: never
  far      Unavailable  validated: never
    no answer

Plugins:
  velero.io/pod  BackupItemAction

Queue (0 waiting):  <none>

Running:  <none>

Last errors:
  backup b1  Failed
    the store is full

";
        assert_eq!(text(&details), expected);
    }

    #[test]
    fn what_cannot_be_read_and_a_server_that_looks_dead_are_told() {
        let mut details = ServerDetails {
            deployment: Part::Known(Some(Availability { name: "velero".into(), ready: 0, desired: 1 })),
            node_agents: Part::Unknown { error: "forbidden".to_owned() },
            locations: Part::Unknown { error: "forbidden".to_owned() },
            plugins: Vec::new(),
            work: Part::Unknown { error: "forbidden".to_owned() },
        };
        let dead = text(&details);
        assert!(dead.contains("velero: 0 of 1 pods available, the status may be out of date"), "{dead}");
        assert_eq!(dead.matches("<unknown: forbidden>").count(), 3, "{dead}");
        details.deployment = Part::Known(None);
        assert!(text(&details).contains("<none>: the server runs elsewhere"));
    }
}
