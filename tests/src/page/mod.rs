//! The page as people use it: a cluster with something to tell, people of different rights, and a browser beside it that reaches
//! nothing else.

mod browser;
mod judge;
mod people;
mod scene;
mod webdriver;

pub use browser::{Browser, Driver, Scripts};
pub use judge::{Axe, Seen, unreachable_by_keyboard};
pub use people::{PEOPLE, People};
pub use scene::{ADDRESS, NAMESPACE, Scene, run};
