//! A client's HTTP/2 connection, assembled from its actions on its streams.
//!
//! Inputs that are raw HTTP/2 would rarely get beyond the headers. So the input is a list of actions, each of which
//! starts with a byte for its kind; [`Deed`] describes the rest.

use super::connection::run;

/// The preface of every connection, with empty settings.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The paths of calls, by their numbers in the input.
pub const CALLS: [&str; 12] = [
    "/deepmind.reverb.ReverbService/InsertStream",
    "/deepmind.reverb.ReverbService/SampleStream",
    "/deepmind.reverb.ReverbService/MutatePriorities",
    "/deepmind.reverb.ReverbService/Reset",
    "/deepmind.reverb.ReverbService/ServerInfo",
    "/deepmind.reverb.ReverbService/InitializeConnection",
    "/relive.v1.ReplayService/Describe",
    "/relive.v1.ReplayService/NameColumns",
    "/relive.v1.ReplayService/ListItems",
    "/relive.v1.ReplayService/GetItems",
    "/relive.v1.ReplayService/Negotiate",
    "/relive.v1.ReplayService/Nothing",
];

/// Kinds of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const WINDOW_UPDATE: u8 = 8;

/// The actions of a client, in the order of the bytes that encode them. A stream is encoded in one byte, a length in
/// two, little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Deed {
    /// Opens the next stream: call (one byte).
    Open = 0,
    /// Sends a message with its header: stream, length, bytes.
    Message,
    /// Sends bytes that need not be a complete message: stream, length, bytes.
    Data,
    /// Ends the client's side of a stream: stream.
    End,
    /// Resets a stream: stream.
    Reset,
    /// Increases the flow-control window: stream, increment (two bytes).
    Window,
    /// Sends a frame of any kind: kind, flags, stream, length, bytes.
    Frame,
    /// Waits until the server has nothing left to do.
    Wait,
}

const DEEDS: [Deed; 8] =
    [Deed::Open, Deed::Message, Deed::Data, Deed::End, Deed::Reset, Deed::Window, Deed::Frame, Deed::Wait];

/// Like the check of connections, for actions. The first byte determines whether the client reads.
pub fn check(data: &[u8]) -> bool {
    let Some((&way, deeds)) = data.split_first() else { return false };
    let mut input = Input(deeds);
    let mut client = Client { pieces: vec![OPENING.to_vec()], opened: 0 };
    while input.act(&mut client).is_some() {}
    run(client.pieces, way & 1 == 1)
}

/// The rest of the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn number(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes([self.byte()?, self.byte()?])))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?.min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(bytes)
    }

    fn act(&mut self, client: &mut Client) -> Option<()> {
        match DEEDS[usize::from(self.byte()?) % DEEDS.len()] {
            Deed::Open => client.open(CALLS[usize::from(self.byte()?) % CALLS.len()]),
            Deed::Message => {
                let (stream, message) = (self.byte()?, self.bytes()?);
                let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
                client.frame(DATA, 0, stream, &[&[0], &length[..], message].concat());
            }
            Deed::Data => client.frame(DATA, 0, self.byte()?, self.bytes()?),
            Deed::End => client.frame(DATA, 1, self.byte()?, &[]),
            Deed::Reset => client.frame(RESET, 0, self.byte()?, &8_u32.to_be_bytes()),
            Deed::Window => {
                let stream = self.byte()?;
                let increment = u32::try_from(self.number()?).unwrap_or(1) << 8;
                client.frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
            }
            Deed::Frame => {
                let (kind, flags, stream) = (self.byte()?, self.byte()?, self.byte()?);
                client.frame(kind, flags, stream, self.bytes()?);
            }
            Deed::Wait => client.pieces.push(Vec::new()),
        }
        Some(())
    }
}

/// The bytes that the client sends, in pieces.
struct Client {
    pieces: Vec<Vec<u8>>,
    /// Number of opened streams, which have the ids 1, 3, 5 …
    opened: u32,
}

impl Client {
    /// Opens a stream; its headers are literal and not compressed.
    fn open(&mut self, path: &str) {
        let mut block = Vec::new();
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        for text in headers {
            block.push(0);
            for text in [text.0, text.1] {
                block.push(u8::try_from(text.len()).unwrap_or(0));
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.opened += 1;
        self.frame_of(HEADERS, 4, 2 * self.opened - 1, &block);
    }

    /// A frame on the stream that was opened as number `stream`, counted from 0; if there is no such stream, on the
    /// connection.
    fn frame(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let stream = u32::from(stream);
        let number = if stream < self.opened { 2 * stream + 1 } else { 0 };
        self.frame_of(kind, flags, number, payload);
    }

    fn frame_of(&mut self, kind: u8, flags: u8, number: u32, payload: &[u8]) {
        let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
        let piece = self.pieces.last_mut().expect("the opening");
        piece.extend_from_slice(&length);
        piece.extend_from_slice(&[kind, flags]);
        piece.extend_from_slice(&number.to_be_bytes());
        piece.extend_from_slice(payload);
    }
}
