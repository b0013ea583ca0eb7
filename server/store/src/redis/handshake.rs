//! Handshake of a new connection: login, database, scripts, and the question whether this is a master. Every refusal has its
//! own reason, and none repeats a password.

use std::sync::Arc;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerError, Value, aio::MultiplexedConnection};
use tracing::debug;

use super::{
    dial::{Dial, RunId},
    keys::NOTHING,
    replies::unfit,
    status::{DownCause, Fault},
    url::Kind,
};
use crate::cause::{all_words, certificate_alert, words};

/// Name under which `CLIENT LIST` shows the connections.
const CLIENT_NAME: &str = "leasehold";

impl Dial<'_> {
    /// Logs in, before everything else and alone: a full server answers the first command with an error and closes the
    /// connection, and that error would be lost if more commands were waiting.
    pub(super) async fn log_in(&self, connection: &mut MultiplexedConnection) -> Result<(), Fault> {
        let mut command = redis::cmd(if self.target.login().is_some() {
            "AUTH"
        } else {
            "PING"
        });
        if let Some(login) = self.target.login() {
            command.arg(login.user.as_deref()).arg(&*login.password);
        }
        match connection.send_packed_command(&command).await {
            // Redis refuses pings while its disk fails, and logs in nevertheless.
            Ok(Value::ServerError(error)) if !cause_of(&error).refuses_some() => {
                Err(self.login_refused(&error))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// Does the rest in one round trip. Returns the memory policy, and the server's run.
    pub(super) async fn set_up(
        &self,
        connection: &mut MultiplexedConnection,
        scripts: &[Arc<str>],
    ) -> Result<(Option<String>, Option<RunId>), Fault> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME);
        pipeline.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
        pipeline.cmd("ROLE");
        pipeline.cmd("INFO");
        let is_alone = self.target.kind() == Kind::Server;
        if is_alone {
            pipeline.cmd("DEL").arg(&NOTHING);
        }
        // PING is refused while the server loads its data or has lost its master; some of the rest is not.
        pipeline.cmd("PING");
        pipeline.cmd("SELECT").arg(self.target.database());
        for script in scripts {
            pipeline.add_command(load_script(script));
        }
        let sent = connection
            .send_packed_commands(&pipeline, 0, pipeline.len())
            .await;
        let mut replies = sent.map_err(|error| self.lost(&error))?.into_iter();
        let (_named, policy) = (replies.next(), replies.next());
        self.check_role(replies.next())?;
        let info = replies.next().unwrap_or(Value::Nil);
        self.check_alone(&info)?;
        if is_alone {
            self.check_deletion(replies.next())?;
        }
        let must_succeed = [
            ("PING", DownCause::Rejected),
            ("SELECT", DownCause::Database),
        ];
        let must_succeed = must_succeed
            .into_iter()
            .chain(std::iter::repeat(("SCRIPT LOAD", DownCause::Rejected)));
        for ((command, cause), reply) in must_succeed.zip(replies) {
            if let Value::ServerError(error) = reply
                && !cause_of(&error).refuses_some()
            {
                return Err(self.refused(command, &error, cause));
            }
        }
        // Many hosted servers forbid CONFIG.
        let policy = policy.and_then(config_value);
        let policy = policy.or_else(|| info_field(&info, "maxmemory_policy"));
        Ok((policy, run_id(&info).map(Into::into)))
    }

    fn check_role(&self, role: Option<Value>) -> Result<(), Fault> {
        let words = match role {
            Some(Value::Array(words)) => words,
            Some(Value::ServerError(error)) if unfit(&error).is_some() => {
                return Err(self.refused("ROLE", &error, DownCause::Rejected));
            }
            // A user may be forbidden to ask. A replica then shows itself by the deletion.
            _ => {
                debug!("{self} does not tell its role; taking it for a master");
                return Ok(());
            }
        };
        match words.first().and_then(text) {
            Some("master") | None => Ok(()),
            Some("slave") => {
                let host = words.get(1).and_then(text).unwrap_or("another server");
                let reason =
                    format!("{self} is a replica of {host}, and only a master can grant locks");
                Err(Fault::new(DownCause::NotMaster, reason))
            }
            Some(role) => {
                let reason = format!(
                    "{self} is a {role}, which keeps no locks; give the address of a master"
                );
                Err(Fault::new(DownCause::WrongKind, reason))
            }
        }
    }

    /// Refuses a node of a cluster, which would serve some locks and refuse others.
    fn check_alone(&self, info: &Value) -> Result<(), Fault> {
        let in_cluster = info_field(info, "cluster_enabled").is_some_and(|is| is == "1");
        if in_cluster && self.target.kind() == Kind::Server {
            return Err(self.in_cluster());
        }
        Ok(())
    }

    /// Refuses what a deletion of nothing shows, by a user who may ask neither `ROLE` nor `INFO`: a replica, and a node of a cluster.
    fn check_deletion(&self, deleted: Option<Value>) -> Result<(), Fault> {
        let Some(Value::ServerError(error)) = deleted else {
            return Ok(());
        };
        if matches!(error.code(), "CROSSSLOT" | "MOVED" | "CLUSTERDOWN") {
            return Err(self.in_cluster());
        }
        match unfit(&error) {
            Some(_) => Err(self.refused("DEL", &error, DownCause::Rejected)),
            None => Ok(()),
        }
    }

    fn in_cluster(&self) -> Fault {
        let reason = format!(
            "{self} is a node of a cluster, which keeps only a part of the locks; give the cluster's nodes as \
             redis+cluster://host,host,host, or rediss+cluster:// with TLS"
        );
        Fault::new(DownCause::WrongKind, reason)
    }

    /// Explains a refused login. The text of some errors repeats the arguments, password included, and is not shown.
    pub(super) fn login_refused(&self, error: &ServerError) -> Fault {
        let details = error.details().unwrap_or_default();
        let where_to = match self.target.kind() {
            Kind::Server | Kind::Node => "in the store URL",
            Kind::Sentinel => "as sentinel-user and sentinel-password in the store URL",
        };
        let (cause, what) = match error.code() {
            "WRONGPASS" => (
                DownCause::Login,
                format!("refused the user or password; correct them {where_to}"),
            ),
            "NOAUTH" => (
                DownCause::Login,
                format!("wants a password; add it, and the user if there is one, {where_to}"),
            ),
            "DENIED" => (
                DownCause::Rejected,
                "is in protected mode; give it a password, or an address to bind to".to_owned(),
            ),
            _ if details.contains("without any password") => (
                DownCause::Login,
                format!("has no password, but is given one; remove what is given {where_to}"),
            ),
            _ => match cause_of(error) {
                DownCause::Rejected => (DownCause::Login, "refused the login".to_owned()),
                cause => (cause, cause.says().to_owned()),
            },
        };
        Fault::new(cause, format!("{self} {what} ({})", words(error)))
    }

    fn refused(&self, command: &str, error: &ServerError, otherwise: DownCause) -> Fault {
        let cause = match cause_of(error) {
            DownCause::Rejected => otherwise,
            cause => cause,
        };
        let reason = format!("{self} refused {command}: {}", all_words(error));
        Fault::new(cause, reason)
    }

    pub(super) fn failed(&self, command: &str, error: RedisError) -> Fault {
        match ServerError::try_from(error) {
            Ok(error) => self.refused(command, &error, DownCause::Rejected),
            Err(error) => self.lost(&error),
        }
    }

    pub(super) fn lost(&self, error: &RedisError) -> Fault {
        let hint = if self.target.uses_tls() {
            ""
        } else {
            "; if this port speaks TLS, write rediss:// (or rediss+…://) in the store URL"
        };
        if error.kind() == ErrorKind::Parse {
            let reason = format!(
                "{self} does not speak the protocol of Redis, so that something else is there, such as an HTTP server; \
                 check the host and the port in the store URL{hint}"
            );
            return Fault::new(DownCause::NotRedis, reason);
        }
        if let Some(alert) = certificate_alert(error) {
            return self.certificate_wanted(alert);
        }
        Fault::new(
            DownCause::Lost,
            format!("{self} closed the connection while it was set up: {error}{hint}"),
        )
    }

    /// Returns the fault of a server that ended a TLS connection because of our certificate, or because there was none. With TLS
    /// 1.3 it does so after the handshake.
    pub(super) fn certificate_wanted(&self, alert: &str) -> Fault {
        let reason = format!(
            "{self} does not accept our certificate, or asks for one and got none (TLS alert {alert})"
        );
        Fault::new(DownCause::CertificateWanted, reason)
    }
}

fn cause_of(error: &ServerError) -> DownCause {
    DownCause::of(error.code(), error.details())
}

/// Returns the command that loads a script.
pub(super) fn load_script(script: &str) -> Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script);
    command
}

/// Returns the question to which [`run_id`] reads the reply.
pub(crate) fn ask_run() -> Cmd {
    let mut command = redis::cmd("INFO");
    command.arg("server");
    command
}

/// Returns the id of the server's run, if it reports one.
pub(crate) fn run_id(reply: &Value) -> Option<String> {
    info_field(reply, "run_id")
}

/// Returns one field of `INFO`. Others may have any bytes: those of errors begin with words that clients chose.
pub(super) fn info_field(reply: &Value, what: &str) -> Option<String> {
    let info = match reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::SimpleString(text) => text.into(),
        _ => return None,
    };
    let mut lines = info.lines();
    let said = lines.find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))?;
    Some(said.to_owned())
}

/// Returns a text, if it is one.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// Returns the value in the reply to `CONFIG GET`.
pub(crate) fn config_value(reply: Value) -> Option<String> {
    match reply {
        Value::Array(words) => words.get(1).and_then(text).map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_clients_in_info_hide_no_other_field() {
        let info = b"# Server\r\nrun_id:0123\r\n# Errorstats\r\nerrorstat_\xff:count=1\r\ncluster_enabled:0\r\n";
        let reply = Value::BulkString(info.to_vec());
        assert_eq!(run_id(&reply).as_deref(), Some("0123"));
        assert_eq!(info_field(&reply, "cluster_enabled").as_deref(), Some("0"));
    }
}
