//! Watches the memory of node agents and of the movers they start.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::peak_memory;

/// How often it looks: a mover lives for a second and more.
const PAUSE: Duration = Duration::from_millis(50);

/// A watch over all node agents and movers of this machine.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// The most memory of each process, in MiB.
#[derive(Default)]
struct Seen {
    agents: BTreeMap<u32, u64>,
    movers: BTreeMap<u32, u64>,
}

impl Watch {
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !told.load(Ordering::Relaxed) {
                seen.look();
                std::thread::sleep(PAUSE);
            }
            seen
        });
        Self { stop, thread }
    }

    /// The most memory of an agent and of a mover, and how many movers there were.
    pub(super) fn stop(self) -> (u64, u64, usize) {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().unwrap_or_default();
        let most = |processes: &BTreeMap<u32, u64>| processes.values().copied().max().unwrap_or_default();
        (most(&seen.agents), most(&seen.movers), seen.movers.len())
    }
}

impl Seen {
    fn look(&mut self) {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()) {
            let Ok(line) = fs::read(format!("/proc/{process}/cmdline")) else { continue };
            let line = String::from_utf8_lossy(&line);
            let Some(program) = line.split('\0').next().filter(|program| program.ends_with("velero")) else { continue };
            let arguments = line.get(program.len()..).unwrap_or_default();
            let kind = match arguments {
                text if text.contains("\0node-agent\0") => &mut self.agents,
                text if text.contains("\0pod-volume\0") || text.contains("\0data-mover\0") => &mut self.movers,
                _ => continue,
            };
            let peak = peak_memory(process).unwrap_or_default();
            let known = kind.entry(process).or_default();
            *known = peak.max(*known);
        }
    }
}
