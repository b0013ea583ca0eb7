//! Kinds of trouble with Redis: one table, from which the log, the status, the doctor and the pages take what is wrong and what to do.

use std::fmt::Display;

use redis::ServerError;

/// Remedy of a server that can't be reached.
const REACH: &str = "Start the server, or mend the network between it and the coordinators";
/// Remedy of a server whose reason says what to do.
const FOLLOW: &str =
    "Follow the reason: the URL leads to another kind of server, or the server is not ready";
/// Remedy of replicas that do not acknowledge.
const REPLICAS: &str =
    "Bring the replica back; if it is gone for good, let the sentinels or the cluster forget it";
/// Longest text of Redis that is shown.
const LONGEST: usize = 200;

/// Declares the kinds: the doctor's finding, the codes of Redis's errors, what is wrong (after the server's name), and what to do.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident $finding:literal $codes:expr, $says:literal, $remedy:expr;)*) => {
        /// Kind of reason why a connection is down, or why a server refuses commands over one that is up.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum DownCause {
            $($(#[$doc])* $cause,)*
        }

        impl DownCause {
            /// All of them, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$cause),*];

            /// Returns the name of the doctor's finding, which is a section of docs/doctor.md.
            #[must_use]
            pub const fn finding(self) -> &'static str {
                match self { $(Self::$cause => $finding,)* }
            }

            /// Returns the codes of the errors with which Redis shows it.
            #[must_use]
            pub const fn codes(self) -> &'static [&'static str] {
                match self { $(Self::$cause => &$codes,)* }
            }

            /// Returns what is wrong with the server: the end of a sentence that begins with its name.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$cause => $says,)* }
            }

            /// Returns what to do.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$cause => $remedy,)* }
            }
        }
    };
}

causes! {
    /// The first dial is still under way.
    Connecting "store-unreachable" [], "is not connected yet", REACH;
    /// The host has no address, or nothing accepts connections there.
    Unreachable "store-unreachable" [], "can't be reached", REACH;
    /// It did not answer in time: a dial, a ping or a run of commands.
    TimedOut "store-unreachable" [], "does not answer", REACH;
    /// The connection was closed or broke.
    Lost "store-unreachable" [], "closed the connection", REACH;
    /// The user or password is wrong, missing or not wanted.
    Login "store-refuses" ["WRONGPASS", "NOAUTH"], "refuses the login",
        "Correct the user and the password in the store's URL, or the server's users";
    /// The user is not permitted to do what a lock needs.
    NotPermitted "redis-permission" ["NOPERM"], "does not permit the store's user what coordinators need",
        "Give the user the rules of docs/deployment.md";
    /// The server has no such command: it was renamed, or the server is too old.
    CommandMissing "command-missing" [], "lacks a command that coordinators need",
        "Remove its rename-command, or upgrade it to Redis 6.2 or later; no rule of the user helps";
    /// It can't write to its disk, and refuses all writes.
    DiskFails "disk-fails" ["MISCONF"], "can't write to its disk",
        "Free or mend the disk; Redis's log has the reason";
    /// It refuses what needs more memory.
    OutOfMemory "out-of-memory" ["OOM"], "is out of memory",
        "Raise maxmemory, or delete other data; renewals, releases and resumes go on";
    /// It refuses writes because too few replicas are connected (`min-replicas-to-write`).
    NoReplicas "replica-away" ["NOREPLICAS"], "takes no writes while replicas are away", REPLICAS;
    /// Too few replicas acknowledge in time (`min-replicas` of the coordinator).
    NotReplicated "replica-away" [], "has too few replicas that acknowledge", REPLICAS;
    /// Its cluster serves no hash slot, or not the lock's.
    ClusterDown "cluster-slots" ["CLUSTERDOWN"], "does not serve the lock's hash slot",
        "Start the masters that are away, and assign the slots: redis-cli --cluster check, then fix";
    /// A script or function runs for too long, and everything else is refused meanwhile.
    Busy "store-busy" ["BUSY"], "runs somebody's script or function that does not end",
        "End it with SCRIPT KILL or FUNCTION KILL; give locks a Redis of their own";
    /// It has as many clients as it takes.
    Full "too-many-clients" [], "has as many clients as it takes",
        "Raise its maxclients, or end some of its clients";
    /// It is still reading its data from disk.
    Loading "store-loading" ["LOADING"], "still reads its data from disk",
        "Wait: coordinators go on by themselves";
    /// It is a replica (or has become one), which cannot grant locks.
    NotMaster "store-is-replica" ["READONLY", "MASTERDOWN"], "is a replica, and only a master can grant locks",
        "Give the master's address, or that of sentinels, which follow it; during a fail-over, wait";
    /// The URL is for another kind: it names a single server, sentinels or a cluster, and the server is something else.
    WrongKind "wrong-kind" [], "is of another kind than the store's URL says",
        "Write redis:// for one server, redis+sentinel:// with the sentinels, or redis+cluster:// with nodes of the cluster";
    /// The server accepts no connection without a certificate that it trusts.
    CertificateWanted "certificate-wanted" [], "asks for a certificate that it trusts",
        "Give store-cert and store-key of an authority that the server trusts (its tls-ca-cert-file)";
    /// The TLS handshake failed: a certificate of another authority or name, or no TLS at all.
    Tls "store-unusable" [], "can't be reached by TLS", FOLLOW;
    /// The server does not speak the protocol of Redis: an HTTP server, for example.
    NotRedis "store-unusable" [], "is no Redis", FOLLOW;
    /// The database number does not exist there.
    Database "store-unusable" [], "lacks the database", FOLLOW;
    /// The master is another server now.
    Moved "store-unusable" [], "is no longer the master", FOLLOW;
    /// The sentinels know no master of the name that they were asked for.
    NoSuchMaster "store-unusable" [], "knows no such master", FOLLOW;
    /// The server refused for another reason.
    Rejected "store-unusable" [], "answered with an error", FOLLOW;
    /// More messages came over it than were read.
    Overflow "store-unusable" [], "sent more than was read", FOLLOW;
    /// The layer above found a reply that did not answer its command.
    WrongReply "store-unusable" [], "sent a wrong reply", FOLLOW;
    /// Of several independent masters, too few have a vote.
    NoMajority "store-unusable" [], "has no majority", FOLLOW;
    /// Independent masters have wrong settings, or other coordinators have different ones.
    Disagreement "store-unusable" [], "has other settings", FOLLOW;
}

impl DownCause {
    /// Returns whether waiting will hardly help, because an operator must change the configuration of a server or of the
    /// coordinator. The link goes on dialling all the same.
    #[must_use]
    pub const fn needs_operator(self) -> bool {
        matches!(
            self,
            Self::Tls
                | Self::CertificateWanted
                | Self::NotRedis
                | Self::Login
                | Self::NotPermitted
                | Self::CommandMissing
                | Self::Database
                | Self::WrongKind
                | Self::NoSuchMaster
                | Self::Disagreement
        )
    }

    /// Returns whether a server that answers with it can't be used at all.
    pub(crate) const fn is_unfit(self) -> bool {
        matches!(
            self,
            Self::NotMaster | Self::Loading | Self::Login | Self::Busy
        )
    }

    /// Returns whether a server that answers with it refuses some commands, and connections to it are of use all the same.
    pub(crate) const fn refuses_some(self) -> bool {
        matches!(
            self,
            Self::DiskFails | Self::OutOfMemory | Self::NoReplicas | Self::ClusterDown
        )
    }

    /// Returns what to do and where that is explained, to follow a reason. Reasons of the general kinds say themselves what to do.
    #[must_use]
    pub fn advice(self) -> String {
        let finding = self.finding();
        match finding {
            "store-unusable" => String::new(),
            "store-unreachable" | "store-refuses" => format!(" (docs/doctor.md#{finding})"),
            _ => format!(". {} (docs/doctor.md#{finding})", self.remedy()),
        }
    }

    /// Returns the kind of an error with which a server answered.
    pub(crate) fn of(code: &str, details: Option<&str>) -> Self {
        let details = details.unwrap_or_default();
        let mut all = Self::ALL.iter().copied();
        let of_code = all.find(|cause| cause.codes().contains(&code));
        of_code.unwrap_or_else(|| Self::of_details(details))
    }

    /// Returns the kind of an error that has a general code.
    fn of_details(details: &str) -> Self {
        if details.contains("max number of clients") {
            return Self::Full;
        }
        // From scripts, Valkey leaves the server's name out.
        let from_scripts = ["Unknown Redis command", "Unknown command called from"];
        if details.starts_with("unknown command")
            || from_scripts.iter().any(|words| details.contains(words))
        {
            return Self::CommandMissing;
        }
        if details.contains("user executing the script can't") {
            return Self::NotPermitted;
        }
        // Before version 7, scripts report the errors of their commands with the code inside the text. Without the hyphen, the
        // same letters may be part of a user's name.
        let says = |code: &&str| details.contains(&format!("-{code} "));
        let mut all = Self::ALL.iter().copied();
        let inside = all.find(|cause| cause.codes().iter().any(says));
        inside.unwrap_or(Self::Rejected)
    }
}

/// Returns whether an error is of a key that holds something else than a lock.
pub(crate) fn is_wrong_type(error: &ServerError) -> bool {
    let is_inside = |details: &str| details.contains("-WRONGTYPE ");
    error.code() == "WRONGTYPE" || error.details().is_some_and(is_inside)
}

/// Returns Redis's own words, as far as they are known to repeat no argument of a command: an owner id may be one.
pub(crate) fn words(error: &ServerError) -> String {
    match DownCause::of(error.code(), error.details()) {
        DownCause::Rejected if !is_wrong_type(error) => error.code().to_owned(),
        _ => all_words(error),
    }
}

/// Returns Redis's own words of a command without secrets.
pub(crate) fn all_words(error: &ServerError) -> String {
    let (code, details) = (error.code(), error.details().unwrap_or_default());
    let (details, _) = details.split_once(", with args").unwrap_or((details, ""));
    let shown = details.chars().filter(|it| !it.is_control());
    format!("{code} {}", shown.take(LONGEST).collect::<String>())
}

/// Returns the alert by which the other side refused our certificate, or the lack of one, if an error is of that.
pub(crate) fn certificate_alert(error: &dyn Display) -> Option<&'static str> {
    let text = error.to_string();
    let (_, alert) = text.split_once("received fatal alert: ")?;
    let alerts = [
        "CertificateRequired",
        "UnknownCA",
        "BadCertificate",
        "CertificateExpired",
        "CertificateRevoked",
        "CertificateUnknown",
        "UnsupportedCertificate",
    ];
    alerts.into_iter().find(|known| alert.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> ServerError {
        let reply = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
        redis::RedisError::from(match reply {
            redis::Value::ServerError(error) => error,
            other => unreachable!("{other:?}"),
        })
        .try_into()
        .unwrap()
    }

    #[test]
    fn the_answers_of_redis_are_told_apart() {
        for (text, expected) in [
            ("MISCONF Redis is configured to save", DownCause::DiskFails),
            ("OOM command not allowed", DownCause::OutOfMemory),
            (
                "NOPERM this user has no permissions",
                DownCause::NotPermitted,
            ),
            ("NOREPLICAS Not enough good replicas", DownCause::NoReplicas),
            ("CLUSTERDOWN The cluster is down", DownCause::ClusterDown),
            ("BUSY Redis is busy running a script", DownCause::Busy),
            ("ERR max number of clients reached", DownCause::Full),
            ("LOADING Redis is loading", DownCause::Loading),
            ("READONLY You can't write", DownCause::NotMaster),
            ("ERR unknown command 'EVALSHA'", DownCause::CommandMissing),
            (
                "ERR Unknown command called from script",
                DownCause::CommandMissing,
            ),
            // Redis 6.2, without and with pcall.
            (
                "ERR Error running script (call to f_1): @user_script:1: -OOM no",
                DownCause::OutOfMemory,
            ),
            (
                "@user_script: 1: -READONLY You can't write",
                DownCause::NotMaster,
            ),
            (
                "ERR Error running script: @user_script:1: The user executing the script can't run this",
                DownCause::NotPermitted,
            ),
            // A user's name.
            ("ERR no user OOM here", DownCause::Rejected),
        ] {
            let error = error(text);
            assert_eq!(
                DownCause::of(error.code(), error.details()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn no_argument_is_repeated() {
        for (text, expected) in [
            (
                "ERR unknown command 'EVALSHA', with args beginning with: 'secret' ",
                "ERR unknown command 'EVALSHA'",
            ),
            ("ERR wrong 'secret'", "ERR"),
            (
                "MISCONF Errors writing to the AOF file: No space left on device",
                "MISCONF Errors writing to the AOF file: No space left on device",
            ),
        ] {
            assert_eq!(words(&error(text)), expected);
        }
    }
}
