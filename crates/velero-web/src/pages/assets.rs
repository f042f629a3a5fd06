//! The style and the script, which are part of the program.

use axum::response::IntoResponse;
use http::header;

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/script.js");
/// A new version of the server brings new ones: they are kept for minutes.
const KEPT: &str = "private, max-age=300";

pub(crate) async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8"), (header::CACHE_CONTROL, KEPT)], STYLE)
}

pub(crate) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8"), (header::CACHE_CONTROL, KEPT)], SCRIPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_refers_to_another_host() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("://") && !text.contains("//") && !text.contains("@import"), "{text}");
        }
    }
}
