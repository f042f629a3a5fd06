//! The ports of a machine that somebody listens on.

use std::fs;

use super::Machine;

/// How the kernel writes that a socket listens.
const LISTENS: &str = "0A";

impl Machine {
    /// Whether something inside listens on a port, at whatever address. Nothing has to be started to find out.
    pub fn is_listening(&self, port: u16) -> bool {
        let sockets = |table: &str| fs::read_to_string(format!("/proc/{}/net/{table}", self.init()));
        ["tcp", "tcp6"].iter().any(|table| sockets(table).is_ok_and(|sockets| has_listener(&sockets, port)))
    }
}

/// From the words of the kernel: after its number a socket has the local address, the remote one and the state.
fn has_listener(sockets: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    sockets.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        matches!(words[..], [_, local, _, LISTENS] if local.ends_with(&port))
    })
}

#[cfg(test)]
mod tests {
    use super::has_listener;

    #[test]
    fn only_a_socket_that_listens_is_a_listener() {
        let sockets = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
                       0: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1\n   \
                       1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 2\n";
        assert!(has_listener(sockets, 2379));
        assert!(!has_listener(sockets, 8080), "a connection does not listen");
        assert!(!has_listener(sockets, 0x4B));
        let six = "   0: 00000000000000000000000001000000:2B67 00000000000000000000000000000000:0000 0A 00000000\n";
        assert!(has_listener(six, 11111));
    }
}
