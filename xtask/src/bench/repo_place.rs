//! Where the repositories of a measurement are: in folders, or in a bucket that is some milliseconds away.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use velero_testkit::kopia::peer_in_bucket;
use velero_testkit::machine::Machine;
use velero_testkit::server::STORE_KEYS;
use velero_testkit::{BoxKind, TestBox, Tool};

/// A box of its own, for the store that comes with it.
const BOX: &str = "repo-bench";
const BUCKET: &str = "bench-repo";
/// How many pieces are under way in one direction of a connection.
const UNDER_WAY: usize = 256;

/// Who works.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Ours,
    Peer,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Ours, Self::Peer];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
        }
    }
}

/// Where repositories are.
pub(super) enum Place {
    Folder,
    /// The store behind a delay.
    Bucket(Delay),
}

impl Place {
    /// The store of the box, behind a delay that is added to every request.
    pub(super) fn bucket(delay: Duration) -> Result<Self> {
        let reached_from = TestBox::up(BOX, BoxKind::ControlPlane)?;
        TestBox::make_bucket(BUCKET)?;
        Ok(Self::Bucket(Delay::start(reached_from.machine().clone(), delay)?))
    }

    /// The name of rows that are measured here.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Bucket(_) => "S3",
        }
    }

    /// A program of one side with its repository named; what it is to do there is to be added.
    pub(super) fn command(&self, side: Side, ours: &Path, folder: &Path) -> Result<Command> {
        let repository = folder.join(side.name());
        let prefix = format!("{}/", repository.display().to_string().trim_start_matches('/'));
        Ok(match (self, side) {
            (Self::Folder, Side::Ours) => {
                std::fs::create_dir_all(&repository)?;
                let mut command = as_a_mover(ours);
                command.arg(repository);
                command
            }
            (Self::Folder, Side::Peer) => {
                std::fs::create_dir_all(&repository)?;
                let mut command = Command::new(Tool::KopiaPeer.path()?);
                command.arg("-folder").arg(repository);
                command
            }
            (Self::Bucket(Delay { url, .. }), Side::Ours) => {
                let mut command = as_a_mover(ours);
                command.arg(format!("s3://{BUCKET}/{prefix}")).env("AWS_ENDPOINT_URL", url).envs(STORE_KEYS);
                command
            }
            (Self::Bucket(Delay { url, .. }), Side::Peer) => peer_in_bucket(BUCKET, &prefix, url)?,
        })
    }

    /// Ends what was brought up for it.
    pub(super) fn remove(self) -> Result<()> {
        match self {
            Self::Folder => Ok(()),
            Self::Bucket(delay) => {
                delay.end()?;
                TestBox::remove_bucket(BUCKET)?;
                TestBox::down(BOX)
            }
        }
    }
}

/// Our program, started as movers start themselves: its allocator keeps nothing for later.
fn as_a_mover(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("MIMALLOC_PURGE_DELAY", "0");
    command
}

/// A door of this machine that leads to the store, and takes some milliseconds longer. Its thread is in the network from
/// which the store is reached, so that no further program carries the bytes.
pub(super) struct Delay {
    url: String,
    end: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Delay {
    fn start(reached_from: Machine, delay: Duration) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || -> Result<()> {
            reached_from.enter_network()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                let serve = async {
                    while let Ok((client, _)) = listener.accept().await {
                        tokio::spawn(carry(client, delay));
                    }
                };
                tokio::select! { () = serve => {}, _ = ended => {} }
                Ok(())
            })
        });
        Ok(Self { url, end, thread })
    }

    fn end(self) -> Result<()> {
        drop(self.end);
        self.thread.join().map_err(|_| anyhow!("the thread that delays panicked"))?
    }
}

/// One connection: what the client sends arrives later, what the store answers at once.
async fn carry(client: TcpStream, delay: Duration) -> std::io::Result<()> {
    let store = TcpStream::connect(TestBox::store_url_for_pods().trim_start_matches("http://")).await?;
    client.set_nodelay(true)?;
    store.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_store, mut to_store) = store.into_split();
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    tokio::spawn(async move { tokio::io::copy(&mut from_store, &mut to_client).await });
    tokio::spawn(async move {
        while let Some((due, piece)) = pieces.recv().await {
            sleep_until(due).await;
            to_store.write_all(&piece).await?;
        }
        to_store.shutdown().await
    });
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from_client.read(&mut buffer).await?;
        if count == 0 || sender.send((Instant::now() + delay, buffer[..count].to_vec())).await.is_err() {
            return Ok(());
        }
    }
}

/// Our program.
pub(super) fn ours(profile: &str) -> Result<PathBuf> {
    velero_testkit::install::package_example("velero-repo", "repository", profile)
}
