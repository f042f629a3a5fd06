//! The keys of the sample repository, for unit tests.

use crate::crypto::{Key, Sealer};
use crate::hex;

pub(crate) const PASSWORD: &str = "static-passw0rd";

pub(crate) fn key(digits: &str) -> Key {
    Key(hex::decode(digits).unwrap().try_into().unwrap())
}

pub(crate) fn sealer() -> Sealer {
    Sealer::new(
        key("56c7a8d4cf43dec51666de7cd0d6f90a8c2f90a707a8c884729c731617923860"),
        &key("e112b2188c1e82b3809bd3563028bf60d5af289e307b708fd773e824f5dd133f"),
    )
}
