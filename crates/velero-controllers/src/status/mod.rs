//! What the server says about itself: `kept` for everybody who looks, `request` for those who ask.

pub(crate) mod kept;
pub(crate) mod request;
