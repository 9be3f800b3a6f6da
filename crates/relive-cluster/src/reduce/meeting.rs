//! The meeting of a ring's members.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::arrivals::Arrivals;
use super::greeting::{Greeting, MemberAddress, answer, refused, welcome};
use super::late_connections::LateConnections;
use super::limits::{CONNECT_TIMEOUT, GREETING_TIMEOUT, LOOK_EVERY, SOCKET_BUFFER_BYTES};
use super::message::Reader;
use super::transfer::Links;
use super::watch::Watch;
use super::{Ring, RingError, RingOptions};

/// The meeting of a ring's members, opened by member 0.
#[derive(Debug)]
pub struct Meeting {
    listener: TcpListener,
    address: SocketAddr,
    options: RingOptions,
}

impl Meeting {
    /// Opens a meeting at an IP address and a port; port 0 selects a free port. Members on other machines must be able
    /// to reach the address.
    ///
    /// # Errors
    /// [`Setting`](RingError::Setting) if options are out of range; [`Meeting`](RingError::Meeting) if it is not
    /// possible to listen on the address.
    pub fn open(address: &str, options: RingOptions) -> Result<Meeting, RingError> {
        options.validate(0)?;
        let opened = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, at) =
            opened.map_err(|error| RingError::meeting(&address, format!("cannot listen there: {error}")))?;
        if options.token.is_empty() && !at.ip().is_loopback() {
            tracing::warn!(address = %at, "listening without a token: everyone who can connect has access; give all \
                                           members the same token");
        }
        Ok(Meeting { listener, address: at, options })
    }

    /// Returns the address that the other members join.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for all members, and returns the ring of member 0. Calls `check` periodically during the wait; an error
    /// from `check` cancels the meeting.
    ///
    /// # Errors
    /// [`Meeting`](RingError::Meeting) if not all members have joined in time, or the error of `check`.
    pub fn ring(self, mut check: impl FnMut() -> Result<(), String>) -> Result<Ring, RingError> {
        let meeting_error = |reason: String| RingError::meeting(&self.address, reason);
        let (ranks, until) = (self.options.ranks, Instant::now() + self.options.meeting);
        let data = listen_beside(self.address.ip()).map_err(|error| meeting_error(error.to_string()))?;
        let mut members: Vec<Option<(TcpStream, MemberAddress)>> = (1..ranks).map(|_| None).collect();
        let mut arrivals = Arrivals::default();
        while members.iter().any(Option::is_none) {
            check().map_err(meeting_error)?;
            if Instant::now() >= until {
                let missing = (1_u32..).zip(&members).filter(|(_, member)| member.is_none());
                let missing: Vec<String> = missing.map(|(rank, _)| rank.to_string()).collect();
                let (seconds, who) = (self.options.meeting.as_secs_f64(), missing.join(", "));
                return Err(meeting_error(format!(
                    "these of the {ranks} members did not join within {seconds} s: {who}"
                )));
            }
            let greeted = arrivals.greeted(&self.listener);
            if greeted.is_empty() {
                std::thread::sleep(LOOK_EVERY);
            }
            for (socket, message) in greeted {
                self.admit(socket, message, &mut members);
            }
        }
        let own = MemberAddress { address: data.address.clone(), process: std::process::id().into() };
        let mut places = vec![own];
        let mut peers = Vec::new();
        for (rank, (socket, place)) in (1..).zip(members.into_iter().flatten()) {
            places.push(place);
            peers.push((rank, socket));
        }
        for (rank, socket) in &mut peers {
            welcome(&places)
                .send(socket)
                .map_err(|error| meeting_error(format!("member {rank} is gone: {error}")))?;
        }
        let late_connections = LateConnections::of(self.listener, arrivals, &self.options);
        linked(0, &self.options, (places, peers), &data, Some(late_connections))
            .map_err(|(rank, error)| meeting_error(format!("member {rank}: {error}")))
    }

    /// Admits or rejects a new connection with this greeting.
    fn admit(
        &self,
        mut socket: TcpStream,
        message: Reader,
        members: &mut [Option<(TcpStream, MemberAddress)>],
    ) {
        let greeting = match socket.set_nonblocking(false).and_then(|()| Greeting::read(message)) {
            Ok(greeting) => greeting,
            Err(error) => {
                return tracing::debug!("a connection to the meeting is not from a member: {error}");
            }
        };
        let is_taken = |place: &Option<(TcpStream, MemberAddress)>| {
            place.as_ref().is_some_and(|(socket, _)| is_open(socket))
        };
        let refusal = greeting.refusal(&self.options).or_else(|| {
            let place = members.get((greeting.rank - 1) as usize).filter(|place| is_taken(place))?;
            let (_, place) = place.as_ref()?;
            Some(format!("rank {} is taken by {place}", greeting.rank))
        });
        match refusal {
            None => members[(greeting.rank - 1) as usize] = Some((socket, greeting.place)),
            // The member may have disconnected.
            Some(reason) => drop(refused(&reason).send(&mut socket)),
        }
    }
}

impl Ring {
    /// Joins the meeting at an address, `host:port`. The meeting may be opened slightly later. Returns the ring of this
    /// member.
    ///
    /// # Errors
    /// [`Setting`](RingError::Setting) if options are out of range, or the rank is not between 1 and `ranks - 1`;
    /// [`Meeting`](RingError::Meeting) if no meeting is opened in time, or not all members join;
    /// [`Refused`](RingError::Refused) if the meeting rejects this member.
    #[expect(clippy::needless_pass_by_value, reason = "as those of a meeting")]
    pub fn join(address: &str, rank: u32, options: RingOptions) -> Result<Ring, RingError> {
        options.validate(rank)?;
        if rank == 0 {
            let expected = "at least 1: member 0 opens the meeting".to_owned();
            return Err(RingError::Setting { name: "rank", got: "0".to_owned(), expected });
        }
        let meeting_error = |reason: String| RingError::meeting(&address, reason);
        let until = Instant::now() + options.meeting;
        let mut socket = connect(address, until).map_err(|error| meeting_error(error.to_string()))?;
        let joined = socket.local_addr().and_then(|own| {
            let data = listen_beside(own.ip())?;
            let place = MemberAddress { address: data.address.clone(), process: std::process::id().into() };
            Greeting::new(rank, &options, place).written().send(&mut socket)?;
            // The meeting's own deadline is slightly earlier than this one.
            let answered = Reader::receive(&mut socket, until + GREETING_TIMEOUT)?;
            Ok((data, answer(answered, options.ranks)?, socket.peer_addr()?.ip()))
        });
        let (data, answered, first) = joined
            .map_err(|error| meeting_error(format!("it ended before all members had joined: {error}")))?;
        let mut places =
            answered.map_err(|reason| RingError::Refused { address: address.to_owned(), reason })?;
        // Member 0 is reachable at the address at which this member joined.
        if let Ok(mut own) = places[0].address.parse::<SocketAddr>() {
            own.set_ip(first);
            places[0].address = own.to_string();
        }
        linked(rank, &options, (places, vec![(0, socket)]), &data, None)
            .map_err(|(rank, error)| meeting_error(format!("member {rank}: {error}")))
    }
}

/// The listener for the preceding member.
struct Data {
    listener: TcpListener,
    address: String,
}

fn listen_beside(ip: IpAddr) -> io::Result<Data> {
    let listener = TcpListener::bind((ip, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?.to_string();
    Ok(Data { listener, address })
}

/// Connects to an address, once something listens there.
fn connect(address: &str, until: Instant) -> io::Result<TcpStream> {
    loop {
        let connected =
            address.to_socket_addrs().and_then(|places| connected(places, CONNECT_TIMEOUT, until));
        let error = match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => error,
        };
        if Instant::now() + LOOK_EVERY >= until || error.kind() == ErrorKind::InvalidInput {
            return Err(io::Error::new(error.kind(), format!("cannot connect: {error}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Connects to one of a name's addresses. An address that drops packets must not use up the time of the others.
fn connected(
    addresses: impl Iterator<Item = SocketAddr>,
    each: Duration,
    until: Instant,
) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::InvalidInput, "the name has no address");
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left.min(each)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the ring, or the neighbor whose connection failed.
fn linked(
    rank: u32,
    options: &RingOptions,
    (places, peers): (Vec<MemberAddress>, Vec<(u32, TcpStream)>),
    data: &Data,
    late_connections: Option<LateConnections>,
) -> Result<Ring, (u32, io::Error)> {
    if options.ranks == 1 {
        return Ok(Ring::alone());
    }
    let [next, before] = [(rank + 1) % options.ranks, (rank + options.ranks - 1) % options.ranks];
    let until = Instant::now() + options.meeting;
    let place = &places[next as usize];
    let to_next = connect(&place.address, until).and_then(|mut socket| {
        Greeting::new(rank, options, places[rank as usize].clone()).written().send(&mut socket)?;
        tuned(socket)
    });
    let to_next = to_next.map_err(|error| (next, error))?;
    let from_before =
        accepted(data, before, options, until).and_then(tuned).map_err(|error| (before, error))?;
    let links = Links::new(to_next, from_before);
    let watch =
        Watch::start(rank, places, peers, options, late_connections).map_err(|error| (rank, error))?;
    Ok(Ring::linked(rank, options, links, watch))
}

/// Accepts the connection of the preceding member, and closes others.
fn accepted(data: &Data, before: u32, options: &RingOptions, until: Instant) -> io::Result<TcpStream> {
    let mut arrivals = Arrivals::default();
    loop {
        for (socket, message) in arrivals.greeted(&data.listener) {
            if Greeting::read(message).is_ok_and(|greeting| greeting.is_of(before, options)) {
                return Ok(socket);
            }
        }
        if Instant::now() >= until {
            return Err(io::Error::new(ErrorKind::TimedOut, "it has not connected"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Makes a connection of the ring nonblocking and sets its options.
fn tuned(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    // A smaller buffer only reduces the speed.
    let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
    let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
    Ok(socket)
}

/// Returns whether the peer still holds its end of the connection open.
fn is_open(socket: &TcpStream) -> bool {
    let _ = socket.set_nonblocking(true);
    let peeked = socket.peek(&mut [0]);
    let _ = socket.set_nonblocking(false);
    peeked.map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the address of a listener that answers no further connections, with what keeps it from answering.
    fn black_hole() -> (SocketAddr, impl Sized) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
        let waiting: Vec<TcpStream> = std::iter::from_fn(connect).collect();
        (address, (listener, waiting))
    }

    #[test]
    fn an_address_without_an_answer_leaves_time_for_the_others() {
        let (silent, _held) = black_hole();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [silent, listener.local_addr().unwrap()];
        let until = Instant::now() + Duration::from_mins(2);
        let socket = connected(addresses.into_iter(), Duration::from_millis(50), until).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), addresses[1]);
        assert!(Instant::now() < until - Duration::from_mins(1));
    }

    #[test]
    fn a_meeting_without_a_token_warns_unless_it_is_local() {
        for (token, ip, expected) in [("", "0.0.0.0", 1), ("", "127.0.0.1", 0), ("secret", "0.0.0.0", 0)] {
            let options = RingOptions { ranks: 2, token: token.into(), ..RingOptions::default() };
            let warnings = relive_testkit::logs::warnings(|| {
                Meeting::open(&format!("{ip}:0"), options).unwrap();
            });
            assert_eq!(warnings.len(), expected, "{token} {ip}");
            assert!(
                warnings.iter().all(|text| text.starts_with("listening without a token")),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn connections_of_others_do_not_delay_the_deadline_of_a_neighbor() {
        let data = listen_beside([127, 0, 0, 1].into()).unwrap();
        let _silent = [(); 8].map(|()| TcpStream::connect(&data.address).unwrap());
        let since = Instant::now();
        let error = accepted(&data, 1, &RingOptions::default(), since).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(since.elapsed() < GREETING_TIMEOUT);
    }
}
