//! What the API server said of rights a moment ago: all open pages of a person that follow a change ask once, not each for itself.
//!
//! Of what is done for somebody the API server is asked each time, with the token of that person; this is about lists and files, which the
//! server has at hand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use crate::problem::Problem;
use crate::user::Right;

/// For how long an answer counts, from the moment at which it was asked for.
const COUNTS: Duration = Duration::from_secs(2);
/// How many answers are kept; when there are more, all are asked for again.
const MOST: usize = 4096;

/// Who asks, as [`crate::identity::Identity::who`] says it, and for which right.
pub(crate) type Question = (Arc<str>, Right);

/// Where an answer is, or will be once it is there.
type Place = Arc<OnceCell<Result<bool, Problem>>>;

/// What was answered, or is being asked.
struct Answer {
    asked: Instant,
    answer: Place,
}

/// The answers of a moment ago.
#[derive(Default)]
pub(crate) struct Rights {
    answers: Mutex<HashMap<Question, Answer>>,
}

impl Rights {
    /// The answer of a moment ago; else it is asked for now, once for all who want to know it. What could not be asked is neither a
    /// yes nor a no: all who waited are told so, who comes later asks anew.
    pub(crate) async fn answer(
        &self,
        question: Question,
        now: Instant,
        ask: impl Future<Output = Result<bool, Problem>>,
    ) -> Result<bool, Problem> {
        let place = self.place_of(question.clone(), now);
        let answer = place.get_or_init(|| ask).await.clone();
        if answer.is_err() {
            self.forget(&question, &place);
        }
        answer
    }

    /// Forgets an answer, unless another one has taken its place meanwhile.
    fn forget(&self, question: &Question, place: &Place) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.get(question).is_some_and(|kept| Arc::ptr_eq(&kept.answer, place)) {
            answers.remove(question);
        }
    }

    fn place_of(&self, question: Question, now: Instant) -> Place {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |answer: &Answer| now.saturating_duration_since(answer.asked) < COUNTS;
        if answers.len() >= MOST {
            answers.retain(|_, answer| counts(answer));
        }
        if answers.len() >= MOST {
            answers.clear();
        }
        let fresh = || Answer { asked: now, answer: Arc::default() };
        let kept = answers.entry(question).or_insert_with(fresh);
        if !counts(kept) {
            *kept = fresh();
        }
        Arc::clone(&kept.answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Right = Right::to("list", "backups");

    async fn ask(rights: &Rights, who: &str, now: Instant, says: Result<bool, Problem>) -> Result<bool, Problem> {
        rights.answer((who.into(), LIST), now, async { says }).await
    }

    #[tokio::test]
    async fn an_answer_counts_for_a_moment_and_for_who_asked() {
        let (rights, begin) = (Rights::default(), Instant::now());
        assert_eq!(ask(&rights, "anna", begin, Ok(true)).await, Ok(true));
        assert_eq!(ask(&rights, "anna", begin, Ok(false)).await, Ok(true), "it was asked a moment ago");
        assert_eq!(ask(&rights, "bert", begin, Ok(false)).await, Ok(false), "somebody else");
        let other = (Arc::from("anna"), Right::to("create", "backups"));
        assert_eq!(rights.answer(other, begin, async { Ok(false) }).await, Ok(false), "another right");
        assert_eq!(ask(&rights, "anna", begin + COUNTS, Ok(false)).await, Ok(false), "it was taken away meanwhile");
    }

    #[tokio::test]
    async fn a_token_that_is_not_taken_any_more_is_said_so() {
        let (rights, begin) = (Rights::default(), Instant::now());
        assert_eq!(ask(&rights, "anna", begin, Ok(true)).await, Ok(true));
        let ended = ask(&rights, "anna", begin + COUNTS, Err(Problem::BadToken)).await;
        assert_eq!(ended, Err(Problem::BadToken));
    }

    #[tokio::test]
    async fn what_could_not_be_asked_is_asked_again_by_the_next_and_told_to_those_who_waited() {
        let (rights, begin) = (Rights::default(), Instant::now());
        let away = || Err(Problem::Away("the API server does not answer".to_owned()));
        let slow = async {
            tokio::task::yield_now().await;
            away()
        };
        let asking = rights.answer(("anna".into(), LIST), begin, slow);
        let (first, second) = tokio::join!(asking, ask(&rights, "anna", begin, Ok(true)));
        assert_eq!((first, second), (away(), away()));
        assert_eq!(ask(&rights, "anna", begin, Ok(true)).await, Ok(true), "a moment later");
        assert_eq!(ask(&rights, "anna", begin, away()).await, Ok(true), "an answer stays");
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let (rights, begin) = (Rights::default(), Instant::now());
        for number in 0..MOST + 10 {
            assert_eq!(ask(&rights, &number.to_string(), begin, Ok(true)).await, Ok(true));
        }
        assert!(rights.answers.lock().unwrap().len() <= MOST);
    }
}
