//! The frame of every page.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use crate::user::User;

/// The pages one can go to.
const PLACES: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/coverage", "Coverage"),
    ("/backups", "Backups"),
    ("/restores", "Restores"),
    ("/schedules", "Schedules"),
    ("/locations", "Locations"),
    ("/search", "Search"),
];

/// A page for who has signed in. `place` is the entry of the menu that it belongs to.
pub(crate) fn page(user: &User, place: &str, title: &str, body: &Markup) -> Html<String> {
    let menu = html! {
        nav aria-label="Pages" {
            @for (address, name) in PLACES {
                a href=(address) aria-current=[(address == place).then_some("page")] { (name) }
            }
        }
        @if user.is_proxied { div.who { span { (user.name) } } }
        @else {
            form.who method="post" action="/sign-out" {
                (form_token(user))
                span { (user.name) }
                button { "Sign out" }
            }
        }
    };
    frame(title, &menu, body)
}

/// A page for anybody.
pub(crate) fn bare(title: &str, body: &Markup) -> Html<String> {
    frame(title, &html! {}, body)
}

/// The field without which a form is not taken.
pub(crate) fn form_token(user: &User) -> Markup {
    html! { input type="hidden" name="form-token" value=(user.form_token); }
}

fn frame(title: &str, menu: &Markup, body: &Markup) -> Html<String> {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Velero" }
                link rel="icon" type="image/svg+xml" href="/icon.svg";
                link rel="stylesheet" href="/style.css";
                script src="/script.js" defer {}
            }
            body {
                a.skip href="#content" { "To the content" }
                header { a.mark href="/" { "Velero" } (menu) }
                main #content tabindex="-1" { (body) }
            }
        }
    };
    Html(whole.into_string())
}
