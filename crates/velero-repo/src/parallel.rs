//! Work in several hands, results in one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;

use crate::{Result, lock};

/// How much several may hold together.
pub(crate) struct Budget {
    most: u64,
    held: Mutex<u64>,
    moved: Condvar,
}

/// A part of a budget, until it is dropped.
pub(crate) struct Share<'a> {
    budget: &'a Budget,
    amount: u64,
}

impl Budget {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, held: Mutex::new(0), moved: Condvar::new() }
    }

    /// Waits until so much is free; who wants more than there is waits until nobody holds anything.
    pub(crate) fn take(&self, amount: u64) -> Share<'_> {
        let amount = amount.min(self.most);
        let full = |held: &mut u64| *held + amount > self.most;
        let mut held = self.moved.wait_while(lock(&self.held), full).unwrap_or_else(PoisonError::into_inner);
        *held += amount;
        Share { budget: self, amount }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *lock(&self.budget.held) -= self.amount;
        self.budget.moved.notify_all();
    }
}

/// Works on items with several threads and takes the results on this one as they come. The first error ends it.
pub(crate) fn for_each<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
    mut take: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    if items.len() < 2 || threads < 2 {
        return items.iter().try_for_each(|item| take(work(item)?));
    }
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::sync_channel(threads);
    thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            let (sender, work, next) = (sender.clone(), &work, &next);
            scope.spawn(move || {
                // An end on the other side ends this one.
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(work(item)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        // Moved in, so that an early end hangs up before the threads are waited for.
        let results = results;
        for result in results {
            take(result?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_budget_is_never_exceeded_and_who_wants_all_of_it_gets_it() {
        let (budget, held, most) = (Budget::new(10), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for hand in 0..8 {
                let (budget, held, most) = (&budget, &held, &most);
                scope.spawn(move || {
                    for round in 0..200 {
                        let wanted = (hand + round) % 13;
                        let share = budget.take(wanted as u64);
                        let now = held.fetch_add(wanted.min(10), Ordering::SeqCst) + wanted.min(10);
                        most.fetch_max(now, Ordering::SeqCst);
                        held.fetch_sub(wanted.min(10), Ordering::SeqCst);
                        drop(share);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 10);
        assert_eq!(*lock(&budget.held), 0);
    }

    #[test]
    fn all_items_are_worked_on_and_the_first_error_ends_it() {
        let items: Vec<u64> = (0..1000).collect();
        let mut sum = 0;
        for_each(
            4,
            &items,
            |item| Ok(item * 2),
            |double| {
                sum += double;
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(sum, 999_000);
        assert!(
            for_each(4, &items, |item| if *item == 500 { Err(Error::Canceled) } else { Ok(()) }, |()| Ok(())).is_err()
        );
        assert!(for_each(4, &items, |_| Ok(()), |()| Err(Error::Canceled)).is_err());
    }
}
