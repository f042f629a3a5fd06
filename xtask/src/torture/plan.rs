//! What happens in a round and when, from random numbers alone.

use std::time::Duration;

use fastrand::Rng;

use super::faults::Fault;

/// Something the server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Backup,
    Restore,
    Deletion,
    RestoreDeletion,
    Cancellation,
}

/// What happens at a moment of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    Begin(Work),
    Strike(Fault),
    Heal(Fault),
}

/// A round: what happens in it, in the order of time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan(pub(super) Vec<(Duration, Happening)>);

impl Plan {
    /// A round in which the server is killed again and again while small pieces of work go on.
    pub(super) fn of_kills(random: &mut Rng, kills: usize) -> Self {
        let (mut at, mut events) = (0, Vec::new());
        for _ in 0..kills {
            for _ in 0..random.usize(2..5) {
                events.push((at + random.u64(0..600), Happening::Begin(work(random))));
            }
            // A server that has just begun pays what the last one left; one that was there for a while works.
            at += random.u64(100..4_000);
            events.push((at, Happening::Strike(Fault::KillServer)));
            at += random.u64(0..150);
            events.push((at, Happening::Heal(Fault::KillServer)));
        }
        Self::sorted(events)
    }

    /// A round in which some of these faults strike.
    pub(super) fn of_faults(random: &mut Rng, deck: &mut Deck) -> Self {
        let length = random.u64(20_000..50_000);
        let mut events = Vec::new();
        for _ in 0..random.usize(6..14) {
            events.push((random.u64(0..length), Happening::Begin(work(random))));
        }
        for _ in 0..random.usize(1..6) {
            let Some(fault) = deck.draw(random) else { break };
            let (shortest, longest) = fault.lasts();
            let at = random.u64(500..length);
            events.push((at, Happening::Strike(fault)));
            events.push((at + random.u64(shortest..longest), Happening::Heal(fault)));
        }
        Self::sorted(events)
    }

    fn sorted(events: Vec<(u64, Happening)>) -> Self {
        let mut events: Vec<_> = events.into_iter().map(|(at, what)| (Duration::from_millis(at), what)).collect();
        events.sort_by_key(|(at, _)| *at);
        Self(events)
    }

    /// The pieces of work in it.
    pub(super) fn works(&self) -> impl Iterator<Item = Work> {
        self.0.iter().filter_map(|(_, what)| if let Happening::Begin(work) = what { Some(*work) } else { None })
    }
}

/// The faults that strike, drawn like cards: each has its turn before one comes a second time, so that chance leaves none
/// out.
pub(super) struct Deck {
    all: Vec<Fault>,
    left: Vec<Fault>,
}

impl Deck {
    pub(super) fn of(faults: &[Fault]) -> Self {
        Self { all: faults.to_vec(), left: Vec::new() }
    }

    /// The next fault; nothing where there are none.
    fn draw(&mut self, random: &mut Rng) -> Option<Fault> {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
            random.shuffle(&mut self.left);
        }
        self.left.pop()
    }

    /// Has faults drawn next that found nobody to strike.
    pub(super) fn put_back(&mut self, missed: impl IntoIterator<Item = Fault>) {
        self.left.extend(missed);
    }
}

fn work(random: &mut Rng) -> Work {
    match random.u8(0..100) {
        0..=45 => Work::Backup,
        46..=79 => Work::Restore,
        80..=90 => Work::Deletion,
        91..=94 => Work::RestoreDeletion,
        _ => Work::Cancellation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_rounds_every_time() {
        let rounds = |seed| {
            let (mut random, mut deck) = (Rng::with_seed(seed), Deck::of(&Fault::ALL));
            [Plan::of_kills(&mut random, 3), Plan::of_faults(&mut random, &mut deck)]
        };
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
    }

    #[test]
    fn whatever_is_struck_is_healed_and_time_goes_forward() {
        for seed in 0..50 {
            let Plan(events) = Plan::of_faults(&mut Rng::with_seed(seed), &mut Deck::of(&Fault::ALL));
            assert!(events.is_sorted_by_key(|(at, _)| *at));
            for fault in Fault::ALL {
                let count = |wanted: Happening| events.iter().filter(|(_, what)| *what == wanted).count();
                assert_eq!(count(Happening::Strike(fault)), count(Happening::Heal(fault)), "{fault:?} of seed {seed}");
            }
        }
    }

    /// There are as many rounds in an hour where each takes two minutes and a half with all that follows it.
    #[test]
    fn every_fault_strikes_within_an_hour() {
        for seed in 0..50 {
            let (mut random, mut deck) = (Rng::with_seed(seed), Deck::of(&Fault::ALL));
            let plans: Vec<Plan> = (0..24).map(|_| Plan::of_faults(&mut random, &mut deck)).collect();
            let strikes = |fault| {
                let events = plans.iter().flat_map(|plan| &plan.0);
                events.filter(|(_, what)| *what == Happening::Strike(fault)).count()
            };
            let unstruck: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| strikes(*fault) == 0).collect();
            assert!(unstruck.is_empty(), "seed {seed}: {unstruck:?}");
        }
    }

    #[test]
    fn a_fault_that_found_nobody_is_drawn_again_and_before_others() {
        let (mut random, mut deck) = (Rng::with_seed(1), Deck::of(&Fault::ALL));
        deck.draw(&mut random);
        deck.put_back([Fault::KillMover]);
        assert_eq!(deck.draw(&mut random), Some(Fault::KillMover));
        assert_eq!(Deck::of(&[]).draw(&mut random), None);
    }
}
