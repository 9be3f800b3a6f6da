//! Two hundred shards and their reader in virtual time, on a network that loses, delays, reorders and duplicates
//! messages, and is sometimes partitioned.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_cluster::stream::{FromShard, Item, Receiving, Sending, ToShard, Window};

const SHARDS: usize = 200;
const WINDOW: Window = Window { items: 16, bytes: 4096 };
/// The size of the largest item, by which a shard may exceed its window.
const LARGEST: usize = 512;

/// An event of the simulation.
#[derive(Debug)]
enum Event {
    ToReader(usize, FromShard),
    ToShard(usize, u64, ToShard),
    /// A shard may produce an item, and send its messages.
    Shard(usize, u64),
    /// The reader takes the available items of a shard.
    Reader(usize),
    Kill(usize),
    Part(usize, Duration),
}

/// The faults of the network, per thousand messages.
struct Faults {
    lost: u32,
    doubled: u32,
    longest_delay_ms: u64,
}

struct Shard {
    sending: Sending,
    epoch: u64,
    made: u64,
    parted_until: Duration,
    most_confirmed: BTreeMap<u64, u64>,
}

struct World {
    now: Duration,
    random: Xoshiro256PlusPlus,
    faults: Faults,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    what: BTreeMap<u64, Event>,
    counter: u64,
    shards: Vec<Shard>,
    readers: Vec<Receiving>,
    /// The number of items taken from each shard, by epoch.
    taken: Vec<BTreeMap<u64, u64>>,
    /// When an item was last taken.
    fresh: Vec<Duration>,
    messages: u64,
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let shard = |_| Shard {
            sending: Sending::new(1, Duration::ZERO),
            epoch: 1,
            made: 0,
            parted_until: Duration::ZERO,
            most_confirmed: BTreeMap::new(),
        };
        let mut world = World {
            now: Duration::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            faults,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            counter: 0,
            shards: (0..SHARDS).map(shard).collect(),
            readers: (0..SHARDS).map(|_| Receiving::new(WINDOW)).collect(),
            taken: vec![BTreeMap::new(); SHARDS],
            fresh: vec![Duration::ZERO; SHARDS],
            messages: 0,
        };
        for number in 0..SHARDS {
            world.at(Duration::ZERO, Event::Shard(number, 1));
            world.at(Duration::ZERO, Event::Reader(number));
        }
        world
    }

    fn at(&mut self, moment: Duration, event: Event) {
        self.counter += 1;
        self.events.push(Reverse((moment, self.counter)));
        self.what.insert(self.counter, event);
    }

    /// Sends a message, which may arrive late, twice, or never.
    fn send(&mut self, number: usize, event: impl Fn() -> Event) {
        self.messages += 1;
        if self.shards[number].parted_until > self.now || self.random.random_range(0..1000) < self.faults.lost
        {
            return;
        }
        let times = if self.random.random_range(0..1000) < self.faults.doubled { 2 } else { 1 };
        for _ in 0..times {
            let delay =
                Duration::from_micros(self.random.random_range(100..=self.faults.longest_delay_ms * 1000));
            self.at(self.now + delay, event());
        }
    }

    /// Processes all events until a time.
    fn run(&mut self, until: Duration) {
        while self.events.peek().is_some_and(|Reverse((moment, _))| *moment <= until) {
            let Some(Reverse((moment, counter))) = self.events.pop() else { return };
            self.now = moment;
            let event = self.what.remove(&counter).expect("each event happens once");
            self.happen(event);
        }
        self.now = until;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToReader(number, message) => {
                self.readers[number].receive(message);
                self.answer(number);
            }
            Event::ToShard(number, epoch, message) if self.shards[number].epoch == epoch => {
                let (now, shard) = (self.now, &mut self.shards[number]);
                shard.sending.receive(now, &message);
                shard.most_confirmed.insert(epoch, shard.sending.confirmed());
                self.speak(number);
            }
            Event::ToShard(..) => {}
            Event::Shard(number, epoch) if self.shards[number].epoch == epoch => self.work(number),
            Event::Shard(..) => {}
            Event::Reader(number) => self.take(number),
            Event::Kill(number) => {
                let (now, shard) = (self.now, &mut self.shards[number]);
                shard.epoch += 1;
                shard.sending = Sending::new(shard.epoch, now);
                shard.made = 0;
                let epoch = shard.epoch;
                self.at(now + Duration::from_secs(2), Event::Shard(number, epoch));
            }
            Event::Part(number, time) => self.shards[number].parted_until = self.now + time,
        }
    }

    /// Lets a shard produce an item if there is room for one.
    fn work(&mut self, number: usize) {
        let size = self.random.random_range(16..=LARGEST);
        let shard = &mut self.shards[number];
        if shard.sending.has_room() {
            let mut bytes = shard.epoch.to_le_bytes().to_vec();
            bytes.extend(shard.made.to_le_bytes());
            bytes.resize(size, 0);
            shard.sending.push(Item::Data(Bytes::from(bytes)));
            shard.made += 1;
        }
        let held = shard.made - shard.sending.confirmed();
        assert!(held <= WINDOW.items, "shard {number} holds {held} items");
        let epoch = shard.epoch;
        self.speak(number);
        let pause = Duration::from_millis(self.random.random_range(500..4000));
        self.at(self.now + pause, Event::Shard(number, epoch));
    }

    fn speak(&mut self, number: usize) {
        while let Some(message) = self.shards[number].sending.transmit(self.now) {
            self.send(number, || Event::ToReader(number, message.clone()));
        }
    }

    fn answer(&mut self, number: usize) {
        while let Some(message) = self.readers[number].transmit() {
            let epoch = self.shards[number].epoch;
            self.send(number, || Event::ToShard(number, epoch, message.clone()));
        }
    }

    fn take(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        let room = usize::try_from(WINDOW.items).unwrap();
        assert!(reader.waiting() <= room, "{} items wait", reader.waiting());
        reader.ask();
        while let Some(item) = reader.take() {
            reader.ask();
            let Item::Data(bytes) = item else { panic!("nothing else was sent") };
            let [epoch, place] = [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
            let taken = self.taken[number].entry(epoch).or_default();
            assert_eq!(
                place, *taken,
                "shard {number}, epoch {epoch}: an item is missing, twice there or out of order"
            );
            *taken += 1;
            self.fresh[number] = self.now;
        }
        self.answer(number);
        self.at(self.now + Duration::from_millis(700), Event::Reader(number));
    }

    /// Checks that every item that a shard considers confirmed has been taken.
    fn check(&self) {
        for (number, shard) in self.shards.iter().enumerate() {
            for (epoch, confirmed) in &shard.most_confirmed {
                let taken = self.taken[number].get(epoch).copied().unwrap_or(0);
                assert!(
                    taken >= *confirmed,
                    "shard {number}, epoch {epoch}: {confirmed} confirmed, {taken} taken"
                );
            }
        }
    }
}

/// Simulates hours of kills, partitions and a bad network, and then a minute without faults, in which every shard must
/// deliver items.
fn hours(seed: u64, hours: u64, faults: Faults) -> World {
    let mut world = World::new(seed, faults);
    let end = Duration::from_secs(hours * 3600);
    for _ in 0..hours * 1200 {
        let number = world.random.random_range(0..SHARDS);
        let moment = end.mul_f64(world.random.random_range(0.0..1.0));
        let event = if world.random.random_bool(0.3) {
            Event::Kill(number)
        } else {
            Event::Part(number, Duration::from_secs(world.random.random_range(1..90)))
        };
        world.at(moment, event);
    }
    for minute in 1..=hours * 60 {
        world.run(Duration::from_secs(minute * 60));
        world.check();
        let late = |fresh: &Duration| world.now.saturating_sub(*fresh) > Duration::from_mins(10);
        assert!(!world.fresh.iter().any(late), "a shard hangs at {:?}", world.now);
    }
    (world.faults.lost, world.faults.doubled) = (0, 0);
    world.shards.iter_mut().for_each(|shard| shard.parted_until = Duration::ZERO);
    world.run(end + Duration::from_mins(1));
    world.check();
    for (number, fresh) in world.fresh.iter().enumerate() {
        assert!(*fresh > end, "shard {number} has not got through in a minute of peace");
    }
    world
}

#[test]
fn four_hours_of_faults_lose_nothing_that_was_confirmed_and_nothing_hangs() {
    let faults = Faults { lost: 50, doubled: 20, longest_delay_ms: 300 };
    let world = hours(1, 4, faults);
    let items: u64 = world.taken.iter().flat_map(BTreeMap::values).sum();
    assert!(items > 500_000, "{items} items in four hours of 200 shards");
}

#[test]
fn a_lossy_and_slow_network_still_delivers_items() {
    let world = hours(2, 1, Faults { lost: 330, doubled: 100, longest_delay_ms: 2500 });
    assert!(world.taken.iter().all(|taken| taken.values().sum::<u64>() > 50), "each shard gets on");
}

#[test]
fn a_reliable_network_needs_few_retransmissions() {
    let mut world = World::new(3, Faults { lost: 0, doubled: 0, longest_delay_ms: 5 });
    world.run(Duration::from_mins(10));
    let items: u64 = world.taken.iter().flat_map(BTreeMap::values).sum();
    let made: u64 = world.shards.iter().map(|shard| shard.made).sum();
    assert!(made - items <= SHARDS as u64 * 4, "{made} made and {items} taken");
    // The limit on messages: one per item, possibly credit for it, and a question with its answer every two seconds.
    let most = 2 * made + SHARDS as u64 * 600;
    assert!(world.messages < most, "{} messages for {made} items", world.messages);
}
