//! The style, the script and the icon, which are part of the program. Whoever asks gets them: they tell nothing.

use axum::response::IntoResponse;
use http::header;

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/script.js");
const ICON: &str = include_str!("../../assets/icon.svg");
/// A new version of the server brings new ones: they are kept for minutes.
const KEPT: &str = "private, max-age=300";

pub(crate) async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8"), (header::CACHE_CONTROL, KEPT)], STYLE)
}

pub(crate) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8"), (header::CACHE_CONTROL, KEPT)], SCRIPT)
}

/// The icon, at its own address and at the one where browsers look for one by themselves.
pub(crate) async fn icon() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, KEPT)], ICON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_refers_to_another_host() {
        // The name of the language of pictures looks like an address and is none.
        let icon = ICON.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for text in [STYLE, SCRIPT, &icon] {
            assert!(!text.contains("://") && !text.contains("//") && !text.contains("@import"), "{text}");
        }
    }

    #[test]
    fn the_icon_has_nothing_that_the_policy_forbids() {
        for word in ["<script", "<style", " style=", "href", " on", "<foreignObject", "<image"] {
            assert!(!ICON.contains(word), "{word} in {ICON}");
        }
    }
}
