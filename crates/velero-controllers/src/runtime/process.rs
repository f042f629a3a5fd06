//! Telling whether a process of this machine is gone.
//!
//! A server that was killed cannot give its Lease back. Its successor on the same machine need not wait until it expires:
//! no process can come back. What cannot be told for certain counts as not gone.

use std::fs;

/// This process: which start of the machine, which set of process numbers, its number there and when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    boot: String,
    numbers: String,
    number: u32,
    began: String,
}

impl Process {
    /// This process; nothing where the system does not tell.
    pub(crate) fn own() -> Option<Self> {
        let number = std::process::id();
        // The numbers that are seen here may be those of another set.
        if fs::read_link("/proc/self").ok()?.to_str() != Some(&number.to_string()) {
            return None;
        }
        let Life::Began(began) = life(number) else { return None };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        let numbers = fs::read_link("/proc/self/ns/pid").ok()?.display().to_string();
        Some(Self { boot, numbers, number, began })
    }

    /// As text that [`Process::read`] understands.
    pub(crate) fn text(&self) -> String {
        let Self { boot, numbers, number, began } = self;
        format!("{boot}/{numbers}/{number}/{began}")
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/').map(str::to_owned);
        let process = Self {
            boot: parts.next()?,
            numbers: parts.next()?,
            number: parts.next()?.parse().ok()?,
            began: parts.next()?,
        };
        parts.next().is_none().then_some(process)
    }

    /// Whether a process that said this of itself is certainly gone.
    pub(crate) fn knows_gone(&self, told: &str) -> bool {
        let Some(told) = Self::read(told) else { return false };
        // Numbers of another machine, or of another container, say nothing here.
        let is_near = (&told.boot, &told.numbers) == (&self.boot, &self.numbers);
        // Where others are hidden, one that is not seen may live.
        let sees_others = matches!(life(1), Life::Began(_));
        is_near && sees_others && life(told.number) != Life::Began(told.began)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Life {
    Began(String),
    Over,
}

/// Whether there is a process of that number, and when it began. One that has ended and was not yet cleared away does
/// nothing any more.
fn life(number: u32) -> Life {
    match fs::read_to_string(format!("/proc/{number}/stat")) {
        Ok(stat) => began(&stat).map_or(Life::Over, Life::Began),
        Err(_) => Life::Over,
    }
}

/// When a process began that the system describes like that; nothing for one that has ended.
fn began(stat: &str) -> Option<String> {
    // Its name, in brackets, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let began = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| began.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_described_by_when_it_began_unless_it_has_ended() {
        let stat = |state: &str| format!("42 (a) b) {state} 1 {} 777 0 0\n", vec!["0"; 17].join(" "));
        assert_eq!(began(&stat("S")).as_deref(), Some("777"));
        assert_eq!(began(&stat("T")).as_deref(), Some("777"), "one that stands still can go on");
        assert_eq!(began(&stat("Z")), None);
        assert_eq!(began("nonsense"), None);
    }

    #[test]
    fn only_a_process_of_this_machine_that_has_ended_is_known_to_be_gone() {
        let own = Process::own().unwrap();
        assert_eq!(Process::read(&own.text()).as_ref(), Some(&own));
        assert!(!own.knows_gone(&own.text()));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let Life::Began(began) = life(child.id()) else { panic!("it lives") };
        let lives = Process { number: child.id(), began, ..own.clone() };
        assert!(!own.knows_gone(&lives.text()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own.knows_gone(&lives.text()));
        let earlier = Process { began: "0".to_owned(), ..own.clone() };
        assert!(own.knows_gone(&earlier.text()), "another process has its number now");
        for (boot, numbers) in [("another-boot", own.numbers.as_str()), (own.boot.as_str(), "pid:[1]")] {
            let far = Process { boot: boot.to_owned(), numbers: numbers.to_owned(), ..lives.clone() };
            assert!(!own.knows_gone(&far.text()), "{far:?}");
        }
        for nonsense in ["", "a/b/c/d", "a/b/1", "a/b/1/2/3"] {
            assert!(!own.knows_gone(nonsense), "{nonsense:?}");
        }
    }
}
