//! What the page says and bears, whoever asks: the headers of every answer, hundreds of tabs, slow readers and writers.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use velero_testkit::cluster_test;

use crate::support::PATIENCE;
use crate::web_support::{Browser, People, with_page};

/// What every answer carries, whatever it is.
const ALWAYS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

#[test]
fn every_kind_of_answer_has_the_headers_that_keep_others_out() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        let mut stranger = Browser::new(&address);
        let mut operator = Browser::signed_in(&address, &people.token("operator")).await;
        let mut viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        let own = format!("http://{address}");
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        let large = format!("token={}", "x".repeat(100 << 10));
        let answers = [
            (stranger.get("/").await, 303, "no-store"),
            (stranger.get("/sign-in").await, 200, "no-store"),
            (stranger.get("/style.css").await, 200, "private, max-age=300"),
            (stranger.get("/script.js").await, 200, "private, max-age=300"),
            (stranger.get("/icon.svg").await, 200, "private, max-age=300"),
            (stranger.get("/favicon.ico").await, 200, "private, max-age=300"),
            (stranger.get("/nothing").await, 404, "no-store"),
            (stranger.post("/sign-in", &[("token", "wrong")]).await, 401, "no-store"),
            (stranger.send("POST", "/sign-in", &[form, ("Origin", &own)], &large).await, 400, "no-store"),
            (stranger.send("POST", "/sign-in", &[form], "token=x").await, 403, "no-store"),
            (stranger.send("DELETE", "/backups/x", &[("Origin", &own)], "").await, 405, "no-store"),
            (stranger.send("OPTIONS", "/", &[("Origin", "http://evil.example")], "").await, 403, "no-store"),
            (operator.get("/").await, 200, "no-store"),
            (operator.get("/backups/absent").await, 404, "no-store"),
            (operator.get("/backups/%2e%2e%2fsecrets").await, 404, "no-store"),
            (operator.get("/backups?page=none").await, 400, "no-store"),
            (operator.get("/new-restore").await, 400, "no-store"),
            (operator.get("/live?kind=secrets").await, 400, "no-store"),
            (operator.post("/new-backup", &[("name", "x")]).await, 403, "no-store"),
            (viewer.get("/coverage").await, 403, "no-store"),
        ];
        for (answer, code, kept) in answers {
            assert_eq!(answer.code, code, "{}\n{}", answer.head, answer.body);
            for (name, value) in ALWAYS.into_iter().chain([("cache-control", kept)]) {
                assert_eq!(answer.header(name), Some(value), "{name} of\n{}", answer.head);
            }
            assert_eq!(answer.header("server"), None);
            assert_eq!(answer.header("access-control-allow-origin"), None, "no other site may read it");
        }
        people.remove();
        server.stop().await;
    });
}

/// Asks for something and reads nothing of the answer but its first bytes.
async fn begun(browser: &Browser, path: &str) -> (tokio::net::TcpStream, String) {
    let cookies: Vec<String> = browser.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", browser.address, cookies.join("; "));
    let mut stream = tokio::net::TcpStream::connect(&browser.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut first)).await;
    read.expect("an answer").unwrap();
    (stream, String::from_utf8(first.to_vec()).unwrap())
}

#[test]
fn hundreds_of_tabs_and_slow_readers_leave_room_for_others() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        let mut viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        let mut tabs = Vec::new();
        for _ in 0..256 {
            let (tab, answer) = begun(&viewer, "/live?kind=backups").await;
            assert_eq!(answer, "HTTP/1.1 200");
            tabs.push(tab);
        }
        let (_, answer) = begun(&viewer, "/live?kind=backups").await;
        assert_eq!(answer, "HTTP/1.1 502", "one tab more is not told of changes");
        let mut slow = Vec::new();
        for _ in 0..200 {
            slow.push(begun(&viewer, "/backups").await);
        }
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(tokio::net::TcpStream::connect(&address).await.unwrap());
        }
        let page = viewer.get("/").await;
        assert_eq!(page.code, 200, "a tab more shows what is there now\n{}", page.body);
        tabs.pop();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while begun(&viewer, "/live?kind=backups").await.1 != "HTTP/1.1 200" {
            assert!(tokio::time::Instant::now() < deadline, "the place of a tab that was closed is free");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        people.remove();
        server.stop().await;
    });
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], content].concat()
}

#[test]
fn a_form_over_http_2_is_not_waited_for() {
    const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const WORDS: &[u8] = b"the page answers HTTP/1.1";
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let text = |name: u8, value: &str| {
            let length = u8::try_from(value.len()).unwrap();
            [&[0x40 | name, length][..], value.as_bytes()].concat()
        };
        // In the numbers of its table: POST, http, the path and the host.
        let head = [vec![0x83, 0x86], text(4, "/sign-in"), text(1, &address)].concat();
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let begun = [BEGINNING.to_vec(), frame(4, 0, 0, &[]), frame(1, 4, 1, &head)].concat();
        stream.write_all(&begun).await.unwrap();
        let mut answer = Vec::new();
        let answered = async {
            let is_refused = |answer: &[u8]| answer.windows(WORDS.len()).any(|part| part == WORDS);
            while !is_refused(&answer) {
                let read = stream.read_buf(&mut answer).await;
                // Who is let go has no place either.
                if !read.is_ok_and(|count| count > 0) {
                    break;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), answered).await.expect("it is refused before its form is there");
        server.stop().await;
    });
}

#[test]
fn forms_that_come_slowly_leave_room_for_others() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let mut slow = Vec::new();
        for _ in 0..64 {
            let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
            let request = format!(
                "POST /sign-in HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken="
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            slow.push(stream);
        }
        let page = Browser::new(&address).get("/sign-in").await;
        assert_eq!(page.code, 200, "{}", page.body);
        for stream in &slow {
            let answer = stream.try_read(&mut [0_u8; 1]);
            let is_waiting = matches!(&answer, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
            assert!(is_waiting, "others did not have to wait until a form was given up: {answer:?}");
        }
        server.stop().await;
    });
}
