//! Whether a server knows a codec.

use relive_tensor::{Codec, CodecSet};
use relive_wire::codec::known_to_peer;
use relive_wire::v1::DescribeRequest;
use tonic::{Code, Status};

use super::{Client, Connection};

impl Client {
    /// Whether the server takes chunks of this codec, if it has to be asked at all: `Unimplemented` if it does not. One
    /// attempt, before each stream, as it may be another server than the one of the stream before.
    pub(crate) async fn check_codec(&self, codec: Option<Codec>) -> Result<(), Status> {
        let Some(codec) = codec.filter(|codec| !CodecSet::REVERB.contains(*codec)) else { return Ok(()) };
        let Connection::Remote(remote) = self.connection() else { return Ok(()) };
        let known = match remote.own_stub().describe(DescribeRequest {}).await {
            Ok(answer) => known_to_peer(&answer.into_inner().codecs),
            Err(status) if status.code() == Code::Unimplemented => CodecSet::REVERB,
            Err(status) => return Err(status),
        };
        if known.contains(codec) {
            return Ok(());
        }
        Err(Status::unimplemented(format!(
            "the server at {} takes chunks compressed with {known}, not {codec}: dm-reverb's servers and old ones of Relive \
             know no other codec; leave the writer's codec at its default",
            self.address()
        )))
    }
}
