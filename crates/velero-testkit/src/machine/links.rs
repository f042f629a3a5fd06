//! Addresses and links: between the machines of this host, and the doors that let a shell on this host in.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Machine;
use super::processes::{output_of, wait_until};

/// The most boxes that can stand side by side.
pub const MOST_BOXES: u8 = 16;

/// How long a machine that goes away may hold on to its ports.
pub const GIVING_UP: Duration = Duration::from_secs(15);

/// A locally administered address.
const HUB_HARDWARE_ADDRESS: &str = "02:00:00:00:00:01";

/// The port of the API server of the box with that number.
pub fn host_port(number: u8) -> u16 {
    26443 + u16::from(number)
}

impl Machine {
    /// The address of the node itself.
    pub fn node_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(172, 31, 1 + self.number, 1)
    }

    /// The address range of the pods, a prefix of 24 bits.
    pub fn pod_range(&self) -> String {
        format!("10.{}.0.0/24", 64 + self.number)
    }

    /// The address range of the services, a prefix of 16 bits.
    pub fn service_range(&self) -> String {
        format!("10.{}.0.0/16", 96 + self.number)
    }

    /// The first address of the service range, the API server's.
    pub fn api_service_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 96 + self.number, 0, 1)
    }

    /// The port of the API server, the same inside and, through the door, on this host's loopback.
    pub fn host_port(&self) -> u16 {
        host_port(self.number)
    }

    /// Gives the machine its node interface (a bridge: not every kernel has a dummy device).
    pub fn add_node_interface(&self) -> Result<()> {
        let address = format!("{}/24", self.node_address());
        self.run("ip", ["link", "add", "node0", "type", "bridge"])?;
        self.run("ip", ["addr", "add", &address, "dev", "node0"])?;
        self.run("ip", ["link", "set", "node0", "up"])?;
        Ok(())
    }

    /// Makes this machine the hub others connect to.
    pub fn add_hub(&self, address: Ipv4Addr) -> Result<()> {
        // Without an address of its own a bridge takes the lowest of its ports': each machine that joins or leaves could
        // change it, and the others would send into the void until they ask again.
        self.run("ip", ["link", "add", "hub0", "address", HUB_HARDWARE_ADDRESS, "type", "bridge"])?;
        self.run("ip", ["addr", "add", &format!("{address}/24"), "dev", "hub0"])?;
        self.run("ip", ["link", "set", "hub0", "up"])?;
        Ok(())
    }

    /// Connects this machine to the hub, so that its processes and its pods reach what runs there.
    pub fn connect_to_hub(&self, hub: &Self, network: [u8; 3]) -> Result<()> {
        let [a, b, c] = network;
        let own = Ipv4Addr::new(a, b, c, 10 + self.number);
        let port = format!("box{}", self.number);
        let _ = hub.run("ip", ["link", "del", &port]);
        output_of(
            Command::new("ip").args(["link", "add", "hub0", "netns", &self.init().to_string(), "type", "veth"]).args([
                "peer",
                "name",
                &port,
                "netns",
                &hub.init().to_string(),
            ]),
        )?;
        self.run("ip", ["addr", "add", &format!("{own}/24"), "dev", "hub0"])?;
        self.run("ip", ["link", "set", "hub0", "up"])?;
        hub.run("ip", ["link", "set", &port, "master", "hub0", "up"])?;
        hub.run("ip", ["route", "replace", &self.pod_range(), "via", &own.to_string()])?;
        Ok(())
    }

    /// Moves the calling thread, and all it starts from now on, into the network of this machine.
    pub fn enter_network(&self) -> Result<()> {
        let namespace = self.network_namespace();
        let file =
            File::open(&namespace).with_context(|| format!("no network namespace at {}", namespace.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("cannot enter the network namespace {}: are you root?", namespace.display()))
    }

    /// Opens a door: connections to a port of this host's loopback reach the address inside the machine.
    pub fn open_door(&self, name: &str, port: u16, inside: &str) -> Result<()> {
        wait_until_free(port, GIVING_UP)?;
        let socket = self.state().join(format!("{name}.socket")).display().to_string();
        self.start(&format!("{name}-inner"), "socat", [format!("UNIX-LISTEN:{socket},fork"), format!("TCP:{inside}")])?;
        self.start_command(
            &format!("{name}-outer"),
            self.command_on_host_network("sh"),
            "socat",
            [format!("TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"), format!("UNIX-CONNECT:{socket}")],
        )
    }
}

/// Whether nothing on this host listens on the port.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Waits for a port that another machine may be giving up just now; fails with the remedy when it is not.
pub fn wait_until_free(port: u16, patience: Duration) -> Result<()> {
    wait_until(&format!("port {port}"), patience, || {
        TcpListener::bind(("127.0.0.1", port)).map(drop).with_context(|| {
            format!("port {port} on 127.0.0.1 is taken, the box needs it: end what listens there (`ss -ltnp sport = :{port}` names it)")
        })
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_port_that_is_just_given_up_is_waited_for_and_one_that_is_kept_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let refusal = format!("{:#}", wait_until_free(port, Duration::ZERO).unwrap_err());
        assert!(refusal.contains(&format!("port {port} on 127.0.0.1 is taken")), "{refusal}");
        let going = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            drop(listener);
        });
        wait_until_free(port, GIVING_UP).unwrap();
        going.join().unwrap();
    }
}
