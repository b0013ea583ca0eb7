//! Kinds of faults of coordinators and the store, and what each may do.

use crate::{credentials::Rotation, record::Effects, store::Store};

macro_rules! faults {
    ($($fault:ident $(($of:ty))? = $name:literal,)*) => {
        /// Fault of a coordinator, a server or the network between them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Fault {
            $($fault $(($of))?,)*
            Rotate(Rotation),
        }

        impl Fault {
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$fault { .. } => $name,)*
                    Self::Rotate(Rotation::Certificates) => "certificates changed",
                    Self::Rotate(Rotation::ServerAuthority) => "authority of coordinators changed",
                    Self::Rotate(Rotation::ClientAuthority) => "authority of clients changed",
                    Self::Rotate(Rotation::Tokens) => "tokens changed",
                }
            }
        }
    };
}

faults! {
    KillCoordinator = "SIGKILL of a coordinator",
    StopCoordinator = "SIGSTOP of a coordinator",
    Drain = "drain",
    RollingRestart = "rolling restart",
    StopServer = "SIGSTOP of Redis",
    KillServer = "SIGKILL of Redis",
    Scripts = "SCRIPT FLUSH",
    KillConnections(&'static str) = "CLIENT KILL",
    Pause(&'static str) = "CLIENT PAUSE",
    Sleep = "DEBUG SLEEP",
    FlushAll = "FLUSHALL",
    Stall = "store stalled",
    Mute = "store mute",
    Cut = "store cut",
    Slow = "store slow",
    FailOver = "fail-over on request",
    FailOverByKill = "fail-over after SIGKILL",
    FailOverByStop = "fail-over after SIGSTOP",
    StopSentinel = "SIGSTOP of a sentinel",
    FullMemory = "full memory",
    MoveSlot = "slot moved",
    Partition = "partition",
    PartitionOneWay = "partition one way",
    Isolate = "host isolated",
    SlowLink = "slow link",
    ClockAhead = "clock stepped ahead and back",
    ClockBehind = "clock stepped back and ahead",
    SlowDisk = "slow disk",
    Eviction = "full memory with eviction",
    LaggingFailOver = "fail-over to a replica that lagged",
    TakePermission = "permission taken away",
    TakeIdentity = "identity taken away",
}

const CREDENTIALS: [Fault; 6] = [
    Fault::Rotate(Rotation::Certificates),
    Fault::Rotate(Rotation::ServerAuthority),
    Fault::Rotate(Rotation::ClientAuthority),
    Fault::Rotate(Rotation::Tokens),
    Fault::TakePermission,
    Fault::TakeIdentity,
];
const COORDINATORS: [Fault; 4] = [
    Fault::KillCoordinator,
    Fault::StopCoordinator,
    Fault::Drain,
    Fault::RollingRestart,
];
const COMMANDS: [Fault; 8] = [
    Fault::StopServer,
    Fault::Scripts,
    Fault::KillConnections("normal"),
    Fault::KillConnections("pubsub"),
    Fault::Pause("ALL"),
    Fault::Pause("WRITE"),
    Fault::Sleep,
    Fault::FullMemory,
];
const PROXIES: [Fault; 4] = [Fault::Stall, Fault::Mute, Fault::Cut, Fault::Slow];
const NETWORK: [Fault; 4] = [
    Fault::Partition,
    Fault::PartitionOneWay,
    Fault::Isolate,
    Fault::SlowLink,
];
const FAIL_OVERS: [Fault; 4] = [
    Fault::LaggingFailOver,
    Fault::FailOver,
    Fault::FailOverByKill,
    Fault::FailOverByStop,
];

impl Fault {
    /// Returns those that a store can have.
    pub(super) fn of(store: &Store, tls: bool) -> Vec<Self> {
        let mut all = COORDINATORS.to_vec();
        let further: &[&[Self]] = match store {
            Store::Memory => &[],
            Store::Single(..) => &[
                &COMMANDS,
                &PROXIES,
                &[Self::KillServer, Self::FlushAll, Self::Eviction],
            ],
            Store::Sentinel(..) => &[
                &COMMANDS,
                &FAIL_OVERS,
                &[Self::StopSentinel, Self::FlushAll, Self::Eviction],
            ],
            Store::Cluster(..) => &[
                &COMMANDS,
                &FAIL_OVERS,
                &[Self::MoveSlot, Self::FlushAll, Self::Eviction],
            ],
            // One master that forgets is a master less, unless it says nothing of it, as with FLUSHALL.
            Store::Quorum(..) => &[&COMMANDS, &PROXIES, &[Self::KillServer]],
        };
        all.extend(further.iter().copied().flatten());
        if !store.hosts().is_empty() {
            all.extend(NETWORK);
        }
        match store {
            _ if store.clocks().is_empty() => {}
            Store::Quorum(..) => all.extend([Self::ClockAhead, Self::ClockBehind]),
            _ => all.extend([Self::ClockAhead, Self::ClockBehind, Self::SlowDisk]),
        }
        if tls {
            all.extend(CREDENTIALS);
        }
        all
    }

    /// Returns what it may do, as docs/promises.md tells.
    pub(super) fn effects(self, store: &Store) -> Effects {
        let steps = matches!(self, Self::ClockAhead | Self::ClockBehind);
        match (self.loses_data(store), steps, store) {
            (true, ..) => Effects::losing_data(),
            // One clock of a quorum is a master less, and nothing more.
            (_, true, Store::Single(..)) => Effects::cutting_leases(),
            // Nobody may notice.
            _ if matches!(self, Self::Rotate(_)) => Effects::default(),
            _ => Effects::on_all(),
        }
    }

    /// Returns whether the store may forget by it what it had confirmed.
    fn loses_data(self, store: &Store) -> bool {
        let replaced = matches!(
            self,
            Self::FailOver
                | Self::FailOverByKill
                | Self::FailOverByStop
                | Self::LaggingFailOver
                | Self::Isolate
                | Self::Eviction
        );
        match (store, self) {
            (Store::Memory, Self::KillCoordinator | Self::Drain | Self::RollingRestart) => true,
            // The replica waits until it has everything.
            (Store::Cluster(_), Self::FailOver) => false,
            // A server that answers nobody for long is replaced.
            (Store::Sentinel(_) | Store::Cluster(_), fault) => {
                let is_silent =
                    matches!(fault, Self::StopServer | Self::Sleep | Self::Pause("ALL"));
                replaced || is_silent || matches!(fault, Self::FlushAll)
            }
            (_, fault) => matches!(fault, Self::FlushAll | Self::Eviction),
        }
    }
}
