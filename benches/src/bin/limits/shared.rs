//! Measures large blocks in memory that two processes share.
//!
//! The sender copies a batch into one of a few slots, and the receiver reads it in place. Messages over a socket assign
//! each slot to one side at a time, so that no slot is read while it is being written.

#![expect(unsafe_code, reason = "memory is mapped")]

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use relive_benches::Outcome;

use crate::rate::rate;
use crate::receiver::Receiver;

/// 256 rows of 40 kB.
const SLOT_BYTES: usize = 256 * 40_000;
const SLOTS: u8 = 4;

/// The number of bytes of the source: so many that it is read from memory and not from a cache.
const SOURCE_BYTES: usize = 64 * SLOT_BYTES;

const CACHE_LINE_BYTES: usize = 64;

pub(crate) fn measure(time: Duration) -> Outcome<f64> {
    let folder = Folder::new("shared")?;
    let mut memory = map(&folder.file("memory", usize::from(SLOTS) * SLOT_BYTES)?)?;
    let listener = UnixListener::bind(folder.path("socket"))?;
    let _receiver = Receiver::start("shared", &folder.path(""))?;
    let (mut turns, _) = listener.accept()?;
    let source = vec![1; SOURCE_BYTES];
    let mut batches = source.chunks_exact(SLOT_BYTES).cycle();
    let (start, mut sent, mut free) = (Instant::now(), 0, (0..SLOTS).collect::<Vec<u8>>());
    while start.elapsed() < time {
        let slot = match free.pop() {
            Some(slot) => slot,
            None => read_byte(&mut turns)?,
        };
        slot_of(&mut memory, slot).copy_from_slice(batches.next().ok_or("the source is empty")?);
        turns.write_all(&[slot])?;
        sent += SLOT_BYTES as u64;
    }
    Ok(rate(sent, start.elapsed()))
}

/// Reads a byte of each received cache line, until the sender ends.
pub(crate) fn receive(folder: &str) -> Outcome {
    let folder = Path::new(folder);
    let memory = OpenOptions::new().read(true).write(true).open(folder.join("memory"))?;
    let mut memory = map(&memory)?;
    let mut turns = UnixStream::connect(folder.join("socket"))?;
    while let Ok(slot) = read_byte(&mut turns) {
        let lines = slot_of(&mut memory, slot).iter().step_by(CACHE_LINE_BYTES);
        black_box(lines.fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
        turns.write_all(&[slot])?;
    }
    Ok(())
}

fn map(file: &File) -> Outcome<MmapMut> {
    // SAFETY: the file is in a folder that only these two processes use, keeps its length while it is mapped, and each
    // slot is used by one of them at a time.
    Ok(unsafe { MmapMut::map_mut(file) }?)
}

fn slot_of(memory: &mut MmapMut, slot: u8) -> &mut [u8] {
    let begin = usize::from(slot) * SLOT_BYTES;
    &mut memory[begin..begin + SLOT_BYTES]
}

fn read_byte(stream: &mut UnixStream) -> Outcome<u8> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    Ok(byte[0])
}

/// A folder in memory, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Outcome<Self> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let folder = Self(parent.join(format!("relive-limits-{}-{name}", std::process::id())));
        fs::create_dir(&folder.0)?;
        Ok(folder)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn file(&self, name: &str, bytes: usize) -> Outcome<File> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(self.0.join(name))?;
        file.set_len(bytes as u64)?;
        Ok(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If the folder cannot be removed, it remains; the error cannot be reported from here.
        let _ = fs::remove_dir_all(&self.0);
    }
}
