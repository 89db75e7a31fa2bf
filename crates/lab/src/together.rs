//! Work of many parts, several of them at a time.

use crate::status::Status;

/// How many parts are under way at a time: they share commits, or the time somebody takes to answer.
const AT_A_TIME: usize = 64;

/// Does the same with every item, several at a time, and tells what came of them in their order. After a failure no
/// further ones are begun; the first one is told.
pub(crate) async fn side_by_side<'a, T, F, R>(
    items: &'a [T],
    work: impl Fn(&'a T) -> F,
) -> Result<Vec<R>, Status>
where
    F: Future<Output = Result<R, Status>>,
{
    let mut done = Vec::with_capacity(items.len());
    for some in items.chunks(AT_A_TIME) {
        for outcome in futures::future::join_all(some.iter().map(&work)).await {
            done.push(outcome?);
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn items_are_done_together_and_told_in_their_order() {
        let items: Vec<u64> = (0..130).collect();
        let began = tokio::time::Instant::now();
        let done = side_by_side(&items, |item| async move {
            // The later ones are done first.
            tokio::time::sleep(Duration::from_millis(1000 - item)).await;
            Ok(*item)
        });
        assert_eq!(done.await.unwrap(), items);
        assert!(began.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test]
    async fn nothing_is_begun_after_a_failure() {
        let (items, begun) = (vec![0; 1000], AtomicUsize::new(0));
        let failed = side_by_side(&items, |_| async {
            begun.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(Status::internal("no"))
        });
        assert!(failed.await.is_err());
        assert_eq!(begun.load(Ordering::Relaxed), AT_A_TIME);
    }
}
