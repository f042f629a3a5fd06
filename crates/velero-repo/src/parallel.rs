//! Work in several hands, results in one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::Result;

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
