//! Measures how fast the items of one shard arrive from another host.
//!
//! ```console
//! $ cargo run --release -p relive-cluster --example stream_speed -- read 10.0.0.1:7000            # on one host
//! $ cargo run --release -p relive-cluster --example stream_speed -- send 10.0.0.1:7000 120 200000 # on the other: bytes, items
//! ```
//!
//! With `raw-read` and `raw-send`, the same bytes are sent over a plain TCP connection.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use relive_cluster::stream::{Port, PortAccess, ShardWriter, Window, WriterOptions};
use relive_flow::Flow;

const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["read", address] => read(address),
        ["send", address, bytes, items] => send(address, bytes.parse()?, items.parse()?),
        ["raw-read", address] => raw_read(address),
        ["raw-send", address, bytes, items] => raw_send(address, bytes.parse()?, items.parse()?),
        _ => Err("arguments are: [raw-]read ADDRESS, or [raw-]send ADDRESS BYTES ITEMS".into()),
    }
}

fn read(address: &str) -> Result<(), Box<dyn Error>> {
    let port = Port::bind(address.parse()?, PortAccess::default())?;
    let mut items = Flow::from_pull("shard", port.reader(0, Window::default())?).try_for_each(|item| item);
    let mut bytes = items.next().transpose()?.map_or(0, |first| first.len());
    let (begun, mut count) = (Instant::now(), 0);
    for item in items {
        bytes += item?.len();
        count += 1;
    }
    report(count, bytes, begun.elapsed());
    Ok(())
}

fn send(address: &str, bytes: usize, items: u32) -> Result<(), Box<dyn Error>> {
    let writer = ShardWriter::connect(address, WriterOptions::default())?;
    for _ in 0..items {
        if !writer.wait_for_room(PATIENCE)? {
            return Err("the reader takes nothing".into());
        }
        // Allocates each item, as a shard does.
        writer.send(Bytes::from(vec![7; bytes]))?;
    }
    writer.finish(PATIENCE)?;
    Ok(())
}

fn raw_read(address: &str) -> Result<(), Box<dyn Error>> {
    let (mut socket, _) = TcpListener::bind(address)?.accept()?;
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, begun) = (socket.read(&mut buffer)?, Instant::now());
    loop {
        match socket.read(&mut buffer)? {
            0 => break,
            read => bytes += read,
        }
    }
    report(0, bytes, begun.elapsed());
    Ok(())
}

fn raw_send(address: &str, bytes: usize, items: u32) -> Result<(), Box<dyn Error>> {
    let mut socket = TcpStream::connect(address)?;
    (0..items).try_for_each(|_| socket.write_all(&vec![7; bytes]))?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn report(items: u64, bytes: usize, took: Duration) {
    let seconds = took.as_secs_f64();
    println!(
        "{:.0} items/s, {:.0} MiB/s",
        items as f64 / seconds,
        bytes as f64 / seconds / f64::from(1 << 20)
    );
}
