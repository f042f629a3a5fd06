//! The names of blobs. Pure.

use crate::content_id::Hash;
use crate::hex;

/// The hash in the name of an encrypted blob: the 32 digits before the first dash, or before the end.
pub fn hash_in(name: &str) -> Option<Hash> {
    let before = name.split('-').next()?;
    let digits = before.get(before.len().checked_sub(32)?..)?;
    hex::decode(digits)?.try_into().ok()
}

/// A fresh id of a writing session: random, and the number of 30-day months since 2000 of the given Unix time.
pub fn new_session_id(now: i64) -> String {
    const FIRST: i64 = 946_684_800;
    const MONTH: i64 = 30 * 24 * 3600;
    format!("s{}{:x}", hex::encode(&crate::crypto::random::<8>()), (now - FIRST).max(0) / MONTH)
}

/// The session at the end of the name of a pack or session marker.
pub fn session_in(name: &str) -> Option<&str> {
    name.split_once('-').map(|(_, session)| session).filter(|session| session.starts_with('s'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_and_sessions_are_found_in_names() {
        let name = "xn0_58c1a2849da1a3700028bc1066016d55-se3f7ab6e6bf445f3147-c1";
        assert_eq!(hex::encode(&hash_in(name).unwrap()), "58c1a2849da1a3700028bc1066016d55");
        assert_eq!(hash_in("_log_1_2_58c1a2849da1a3700028bc1066016d55"), hash_in(name));
        assert_eq!(hash_in("xe1"), None);
        assert_eq!(session_in("q35076a895d04e0a2b73446bfc1d66734-se3f7ab6e6bf445f3147"), Some("se3f7ab6e6bf445f3147"));
    }

    #[test]
    fn a_session_ends_in_its_month() {
        let id = new_session_id(1_794_787_033);
        assert_eq!(id.len(), 20);
        assert!(id.starts_with('s') && id.ends_with("147"));
    }
}
