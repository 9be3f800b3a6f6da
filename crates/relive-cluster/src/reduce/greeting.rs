//! The messages of a meeting. See [`message`](super::message) for their encoding.
//!
//! | message | fields |
//! |---|---|
//! | a member, to the meeting | `relive ring 1`, rank, ranks, job, token, the address for the preceding member, process id |
//! | the meeting, to a member | 0 and, for each rank, address and process id; or 1 and the reason for a rejection |
//! | a member, to the next one | as to the meeting |

use std::fmt;
use std::io;

use relive_transport::is_same_token;

use super::RingOptions;
use super::message::{Reader, Writer, invalid};

const MAGIC: &str = "relive ring 1";

/// The address of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberAddress {
    /// The address to which the preceding member should connect.
    pub(super) address: String,
    /// The process id of the member.
    pub(super) process: u64,
}

impl fmt::Display for MemberAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemberAddress { address, process } = self;
        write!(f, "{address}, process {process}")
    }
}

/// The greeting of a member.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) rank: u32,
    ranks: u32,
    job: String,
    token: String,
    pub(super) place: MemberAddress,
}

impl Greeting {
    pub(super) fn new(rank: u32, options: &RingOptions, place: MemberAddress) -> Greeting {
        let RingOptions { ranks, job, token, .. } = options.clone();
        Greeting { rank, ranks, job, token, place }
    }

    pub(super) fn written(&self) -> Writer {
        let Greeting { rank, ranks, job, token, place } = self;
        let who = Writer::default().text(MAGIC).number((*rank).into()).number((*ranks).into());
        who.text(job).text(token).text(&place.address).number(place.process)
    }

    pub(super) fn read(mut from: Reader) -> io::Result<Greeting> {
        if from.text()? != MAGIC {
            return Err(invalid("it is not a member of a ring, or has another version"));
        }
        let (rank, ranks) = (from.rank()?, from.rank()?);
        let (job, token) = (from.text()?, from.text()?);
        let place = MemberAddress { address: from.text()?, process: from.number()? };
        Ok(Greeting { rank, ranks, job, token, place })
    }

    /// Returns the reason for rejecting the member if it does not belong to this ring. The token is checked first,
    /// because a member without it must not get any other information.
    pub(super) fn refusal(&self, options: &RingOptions) -> Option<String> {
        let RingOptions { ranks, job, token, .. } = options;
        if !is_same_token(self.token.as_bytes(), token.as_bytes()) {
            return Some("its token is wrong; use the token of the first member".to_owned());
        }
        if self.job != *job {
            return Some(format!("it belongs to job `{}`, but the ring belongs to job `{job}`", self.job));
        }
        if self.ranks != *ranks {
            return Some(format!("it expects {} members, but the ring has {ranks}", self.ranks));
        }
        if self.rank == 0 || self.rank >= *ranks {
            return Some(format!("its rank is {}, but it must be 1 to {}", self.rank, ranks - 1));
        }
        None
    }

    /// Returns whether this is the greeting of the member of this ring with the given rank.
    pub(super) fn is_of(&self, rank: u32, options: &RingOptions) -> bool {
        let RingOptions { ranks, job, token, .. } = options;
        is_same_token(self.token.as_bytes(), token.as_bytes())
            && self.job == *job
            && (self.rank, self.ranks) == (rank, *ranks)
    }
}

/// Returns the meeting's answer to a member, with the addresses of all members.
pub(super) fn welcome(places: &[MemberAddress]) -> Writer {
    let begun = Writer::default().number(0);
    places.iter().fold(begun, |written, place| written.text(&place.address).number(place.process))
}

pub(super) fn refused(reason: &str) -> Writer {
    Writer::default().number(1).text(reason)
}

/// Returns the addresses of the given number of members, or the reason for a rejection.
pub(super) fn answer(mut from: Reader, ranks: u32) -> io::Result<Result<Vec<MemberAddress>, String>> {
    match from.number()? {
        0 => (0..ranks)
            .map(|_| Ok(MemberAddress { address: from.text()?, process: from.number()? }))
            .collect::<io::Result<_>>()
            .map(Ok),
        1 => from.text().map(Err),
        _ => Err(invalid("it is not the meeting of a ring")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_greetings_are_refused_with_the_reason() {
        let options =
            RingOptions { ranks: 3, job: "a".into(), token: "secret".into(), ..RingOptions::default() };
        let refusal = |change: &dyn Fn(&mut Greeting)| {
            let place = MemberAddress { address: "127.0.0.1:7".into(), process: 9 };
            let mut greeting = Greeting::new(1, &options, place);
            change(&mut greeting);
            let read = Greeting::read(Reader::new(greeting.written().framed().split_off(4))).unwrap();
            assert_eq!(read.place, greeting.place);
            read.refusal(&options)
        };
        assert_eq!(refusal(&|_| {}), None);
        for (change, expected) in [
            (&(|g: &mut Greeting| g.token = "secreT".into()) as &dyn Fn(&mut Greeting), "token"),
            (&|g: &mut Greeting| g.token.clear(), "token"),
            (&|g: &mut Greeting| g.job = "b".into(), "job `b`"),
            (&|g: &mut Greeting| g.ranks = 2, "expects 2 members, but the ring has 3"),
            (&|g: &mut Greeting| g.rank = 3, "rank is 3, but it must be 1 to 2"),
            (&|g: &mut Greeting| g.rank = 0, "rank is 0"),
        ] {
            let reason = refusal(change).unwrap();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
