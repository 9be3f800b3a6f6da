//! Tests what remains after servers are killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_client::{Client, ClientOptions, Nest, SamplerOptions, Tensor, TrajectoryWriterOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::checkpoint_support::{folder, text};
use crate::support::{Served, command, file};

/// This is longer than any operation takes, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The variable that sets the number of kills, for longer runs than in the test suite.
const CYCLES: &str = "RELIVE_KILL_CYCLES";

/// Maximum number of items of the table: so few that some are evicted in every cycle.
const MAX_SIZE: u64 = 200;

const ITEM_BYTES: u32 = 1_000;

/// Returns a server on a given port.
fn serve(config: &Path, root: &Path, port: &str, more: &[&str]) -> Served {
    let fixed = ["serve", "--port", port, "--config", text(config), "--checkpoint-dir", text(root)];
    Served::spawn(&mut command(&[&fixed, more].concat()))
}

fn kill(mut served: Served) {
    served.child.kill().unwrap();
    served.child.wait().unwrap();
}

/// Returns the step of an item: its number, and incompressible bytes that are derived from the number.
fn step(number: u64) -> Nest<Tensor> {
    let mut bytes = vec![0; ITEM_BYTES as usize];
    Xoshiro256PlusPlus::seed_from_u64(number).fill_bytes(&mut bytes);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nest::Leaf(Tensor::from_slice(&bytes, [ITEM_BYTES]).unwrap())
}

/// A folder of checkpoints. Its server is killed repeatedly.
struct KilledServer {
    config: PathBuf,
    root: PathBuf,
    format: &'static str,
    rng: Xoshiro256PlusPlus,
    /// The number of the next item.
    next: u64,
    /// Items from this number on may be lost.
    durable: u64,
    /// Checkpoints that were being written when the server was killed.
    broken_off: u64,
}

impl KilledServer {
    async fn cycle(&mut self) {
        let served = serve(
            &self.config,
            &self.root,
            "0",
            &["--checkpoint-keep", "2", "--checkpoint-format", self.format],
        );
        let client =
            Client::connect_with(&served.address, ClientOptions::default().timeout(PATIENCE)).unwrap();
        self.check(&client).await;
        let items = 1 + self.rng.next_u64() % 20;
        self.insert(&client, items).await;
        let since = Instant::now();
        client.checkpoint().await.unwrap();
        let checkpoint_us = u64::try_from(since.elapsed().as_micros()).unwrap().max(1);
        self.durable = self.next;
        let items = self.rng.next_u64() % 20;
        self.insert(&client, items).await;
        // On any disk, about half of the kills interrupt a checkpoint.
        let patience = Duration::from_micros(self.rng.next_u64() % checkpoint_us);
        match timeout(patience, client.checkpoint()).await {
            Ok(written) => {
                written.unwrap();
                self.durable = self.next;
            }
            Err(_) => self.broken_off += 1,
        }
        kill(served);
    }

    /// Inserts items, and waits until the server confirms them.
    async fn insert(&mut self, client: &Client, items: u64) {
        let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        for number in self.next..self.next + items {
            writer.append(&step(number)).unwrap();
            let column = writer.history().column_at(0).unwrap().slice(-1..).unwrap();
            writer.create_item("t", number as f64, column).await.unwrap();
        }
        writer.close().await.unwrap();
        self.next += items;
    }

    /// Checks that the items are those that the table held at a single moment, no earlier than the last confirmed
    /// checkpoint.
    async fn check(&mut self, client: &Client) {
        let listed = client.items("t", 0, 1_000).await.unwrap().items;
        let keys: Vec<u64> = listed.iter().map(|item| item.key).collect();
        let samples = client.get_items("t", &keys).await.unwrap();
        let mut found = BTreeMap::new();
        for (item, sample) in listed.iter().zip(samples) {
            let columns = sample.expect("it was listed").columns().unwrap();
            let bytes = columns[0].as_slice::<u8>().unwrap();
            let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let Nest::Leaf(expected) = step(number) else { unreachable!("a step is one tensor") };
            assert_eq!(bytes, expected.as_slice::<u8>().unwrap(), "item {number}");
            assert_eq!(item.priority, number as f64);
            assert_eq!(found.insert(number, item.key), None, "item {number} came twice");
        }
        let end = found.keys().next_back().map_or(0, |last| last + 1);
        assert!(self.durable <= end && end <= self.next, "{} <= {end} <= {}", self.durable, self.next);
        assert!(found.keys().copied().eq(end.saturating_sub(MAX_SIZE)..end), "{:?} of {end}", found.keys());
        let info = client.server_info().await.unwrap();
        let table = info.table("t").unwrap();
        assert_eq!(
            (table.inserts.unsigned_abs(), table.deletes.unsigned_abs()),
            (end, end.saturating_sub(MAX_SIZE))
        );
        self.next = end;
        self.check_folder();
    }

    /// Checks the size of the folder: two checkpoints of up to 200 items each, the leftovers of an interrupted one, and
    /// some allowance for small files.
    fn check_folder(&self) {
        let (files, bytes) = size(&self.root);
        let live = MAX_SIZE * u64::from(ITEM_BYTES);
        assert!(
            bytes < 5 * live && files < 120,
            "{files} files with {bytes} bytes for {live} bytes of items"
        );
    }
}

/// Returns the number of files and of bytes below a folder.
fn size(folder: &Path) -> (u64, u64) {
    let Ok(entries) = std::fs::read_dir(folder) else { return (0, 0) };
    entries.fold((0, 0), |(files, bytes), entry| {
        let path = entry.unwrap().path();
        let (more_files, more_bytes) =
            if path.is_dir() { size(&path) } else { (1, path.metadata().unwrap().len()) };
        (files + more_files, bytes + more_bytes)
    })
}

async fn kill_again_and_again(format: &'static str, cycles: u64) {
    let seed = std::process::id().into();
    println!("{format}: seed {seed}");
    let config = file(".toml", &format!("[[table]]\nname = 't'\nmax_size = {MAX_SIZE}\n"));
    let root = folder(&format!("kills-{format}"));
    let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut victim = KilledServer { config, root, format, rng, next: 0, durable: 0, broken_off: 0 };
    for _ in 0..cycles {
        victim.cycle().await;
    }
    println!(
        "{format}: {cycles} kills, {} of them in a checkpoint, {} items",
        victim.broken_off, victim.next
    );
    assert!(victim.broken_off > 0, "no checkpoint was being written when the server was killed");
}

fn cycles(by_default: u64) -> u64 {
    std::env::var(CYCLES).map_or(by_default, |text| text.parse().expect("a number of kills"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_checkpointed_items() {
    kill_again_and_again("relive", cycles(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_checkpointed_items_in_dm_reverbs_format() {
    kill_again_and_again("reverb", cycles(25)).await;
}

/// A client's successful operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientEvent {
    Wrote,
    Inserted,
    Sampled,
    Called,
}

const ALL: [ClientEvent; 4] =
    [ClientEvent::Wrote, ClientEvent::Inserted, ClientEvent::Sampled, ClientEvent::Called];

/// Returns the clients of each kind, which do not end by themselves.
fn clients(
    client: impl Fn() -> Client,
    done: &UnboundedSender<ClientEvent>,
) -> JoinSet<relive_client::Result<()>> {
    let mut running = JoinSet::new();
    let (own, events) = (client(), done.clone());
    running.spawn(async move {
        let mut writer = own.trajectory_writer(TrajectoryWriterOptions::new(1).max_pending_items(50))?;
        for number in 0.. {
            writer.append(&step(number))?;
            let column = writer.history().column_at(0)?.slice(-1..)?;
            writer.create_item("t", 1.0, column).await?;
            let _ = events.send(ClientEvent::Wrote);
        }
        Ok(())
    });
    let (own, events) = (client(), done.clone());
    running.spawn(async move {
        for number in 0.. {
            own.insert(&step(number), &[("t", 1.0)]).await?;
            let _ = events.send(ClientEvent::Inserted);
        }
        Ok(())
    });
    let (own, events) = (client(), done.clone());
    running.spawn(async move {
        let mut sampler = own.sampler("t", SamplerOptions::default())?;
        while let Some(sample) = sampler.next().await {
            sample?.columns()?;
            let _ = events.send(ClientEvent::Sampled);
        }
        Ok(())
    });
    let (own, events) = (client(), done.clone());
    running.spawn(async move {
        loop {
            own.sample("t", 3).await?;
            let _ = events.send(ClientEvent::Called);
        }
    });
    running
}

/// Waits until clients of every kind have made progress from now on.
async fn all_go_on(
    done: &mut UnboundedReceiver<ClientEvent>,
    running: &mut JoinSet<relive_client::Result<()>>,
) {
    while done.try_recv().is_ok() {}
    let mut missing = ALL.map(|did| (did, 20)).to_vec();
    let progress = async {
        while !missing.is_empty() {
            tokio::select! {
                did = done.recv() => missing.retain_mut(|(what, left)| {
                    *left -= u32::from(Some(*what) == did);
                    *left > 0
                }),
                ended = running.join_next() => panic!("a client ended: {ended:?}"),
            }
        }
    };
    let all = timeout(PATIENCE, progress).await;
    assert!(all.is_ok(), "these do not go on: {missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_recover_automatically_when_their_server_is_killed_and_restarted() {
    let config = file(".toml", "[[table]]\nname = 't'\nmax_size = 1000\n");
    let root = folder("restart-under-load");
    let every = ["--checkpoint-every", "1s"];
    let mut served = serve(&config, &root, "0", &every);
    let address = served.address.clone();
    let (_, port) = address.rsplit_once(':').unwrap();
    let (sender, mut done) = unbounded_channel();
    let options = || ClientOptions::default().timeout(PATIENCE);
    let mut running = clients(|| Client::connect_with(&address, options()).unwrap(), &sender);
    for _ in 0..5 {
        all_go_on(&mut done, &mut running).await;
        let asking = Client::connect(&address).unwrap();
        asking.with_timeout(PATIENCE).checkpoint().await.unwrap();
        kill(served);
        served = serve(&config, &root, port, &every);
        let info = Client::connect(&address).unwrap().server_info().await.unwrap();
        assert!(info.table("t").unwrap().inserts > 0, "it begins with the checkpoint");
    }
    all_go_on(&mut done, &mut running).await;
}

/// Tests the statements of `docs/clusters.md` about several servers, one of which is killed: writers, samplers and
/// calls continue with the remaining ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_several_servers_continue_when_one_is_killed() {
    let mut servers: Vec<Served> =
        (0..3).map(|_| Served::start(".toml", "[[table]]\nname = 't'\nmax_size = 1000\n")).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
    let (sender, mut done) = unbounded_channel();
    let options = || ClientOptions::default().timeout(PATIENCE);
    let mut running = clients(|| Client::connect_many_with(&addresses, options()).unwrap(), &sender);
    while servers.len() > 1 {
        all_go_on(&mut done, &mut running).await;
        kill(servers.remove(0));
        all_go_on(&mut done, &mut running).await;
    }
}
