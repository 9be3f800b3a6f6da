//! The RPCs: their paths, and the role that each requires.

use crate::access::Role;

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rpc {
    InsertStream,
    SampleStream,
    MutatePriorities,
    Reset,
    ServerInfo,
    Checkpoint,
    InitializeConnection,
    Describe,
    CheckpointStatus,
    ChangeTable,
    AddTable,
    DropTable,
    Negotiate,
    ListItems,
    GetItems,
    NameColumns,
}

impl Rpc {
    /// Returns the call at `path`, if it exists.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        match path.strip_prefix('/')?.split_once('/')? {
            ("deepmind.reverb.ReverbService", name) => Self::of_reverb(name),
            ("relive.v1.ReplayService", name) => Self::of_relive(name),
            _ => None,
        }
    }

    fn of_reverb(name: &str) -> Option<Self> {
        Some(match name {
            "InsertStream" => Self::InsertStream,
            "SampleStream" => Self::SampleStream,
            "MutatePriorities" => Self::MutatePriorities,
            "Reset" => Self::Reset,
            "ServerInfo" => Self::ServerInfo,
            "Checkpoint" => Self::Checkpoint,
            "InitializeConnection" => Self::InitializeConnection,
            _ => return None,
        })
    }

    fn of_relive(name: &str) -> Option<Self> {
        Some(match name {
            "Describe" => Self::Describe,
            "CheckpointStatus" => Self::CheckpointStatus,
            "ChangeTable" => Self::ChangeTable,
            "AddTable" => Self::AddTable,
            "DropTable" => Self::DropTable,
            "Negotiate" => Self::Negotiate,
            "ListItems" => Self::ListItems,
            "GetItems" => Self::GetItems,
            "NameColumns" => Self::NameColumns,
            _ => return None,
        })
    }

    /// Returns the role that the call requires. There is no default, so that each new call must specify a role.
    pub(super) fn role(self) -> Role {
        match self {
            Self::SampleStream
            | Self::ServerInfo
            | Self::InitializeConnection
            | Self::Describe
            | Self::CheckpointStatus
            | Self::Negotiate
            | Self::ListItems
            | Self::GetItems => Role::Read,
            Self::InsertStream | Self::MutatePriorities | Self::NameColumns => Role::Write,
            Self::Reset | Self::Checkpoint | Self::ChangeTable | Self::AddTable | Self::DropTable => {
                Role::Admin
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_only_under_their_own_service() {
        let reset = Rpc::from_path("/deepmind.reverb.ReverbService/Reset");
        let list = Rpc::from_path("/relive.v1.ReplayService/ListItems");
        assert_eq!((reset, list), (Some(Rpc::Reset), Some(Rpc::ListItems)));
        for path in [
            "/relive.v1.ReplayService/Reset",
            "/deepmind.reverb.ReverbService/ListItems",
            "/deepmind.reverb.ReverbService/Reset/",
            "deepmind.reverb.ReverbService/Reset",
            "/Reset",
            "/",
            "",
        ] {
            assert_eq!(Rpc::from_path(path), None, "{path}");
        }
    }
}
