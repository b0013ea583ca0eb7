//! Examination of one Redis server: connects as coordinators do, and asks for what an operator judges it by.
//!
//! - `rights`: tries the commands that coordinators need, in forms that change nothing.
//! - `standbys`: the certificates of replicas that would take over for a master.

mod rights;
mod standbys;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use redis::{Cmd, Value, aio::MultiplexedConnection};
use tokio::time::timeout;

pub(super) use self::standbys::standbys;
use super::{
    dial::{Dialled, Purpose, dial},
    handshake::{config_value, info_field},
    keys::Keys,
    status::{DownCause, Fault},
    url::RedisTarget,
};
use crate::examine::facts::{Clock, ReplicaFacts, ServerFacts, ServerReport, Trouble};

/// Number of readings of a clock, of which the quickest counts.
const READINGS: usize = 3;
/// Settings that are read.
const SETTINGS: [&str; 5] = [
    "maxmemory-policy",
    "appendfsync",
    "save",
    "min-replicas-to-write",
    "cluster-require-full-coverage",
];

/// Manner of an examination, the same for all servers of a store.
#[derive(Clone, Debug)]
pub(crate) struct Examination {
    pub(crate) keys: Keys,
    /// Whether coordinators wait for acknowledgements of replicas.
    pub(crate) acknowledged: bool,
    pub(crate) timeout: Duration,
}

/// Server that answered.
pub(crate) struct Examined {
    pub(crate) report: ServerReport,
    /// Id of the server's present run.
    pub(crate) run: Option<String>,
    /// Replies to further questions.
    pub(crate) answers: Vec<Value>,
}

/// Connection for questions.
struct Conversation<'a> {
    server: String,
    connection: &'a mut MultiplexedConnection,
    patience: Duration,
}

impl From<Fault> for Trouble {
    fn from(Fault { cause, reason }: Fault) -> Self {
        Self {
            cause,
            reason: reason.to_string(),
        }
    }
}

/// Examines a server, of which nobody else reports.
pub(crate) async fn examine_one(target: &RedisTarget, examination: &Examination) -> ServerFacts {
    let examined = examine_server(target, examination, Vec::new()).await;
    ServerFacts {
        server: target.label(),
        known_replicas: None,
        report: examined.map(|it| it.report).map_err(Trouble::from),
    }
}

/// Examines a server, and asks further questions beside those that all servers are asked.
pub(crate) async fn examine_server(
    target: &RedisTarget,
    examination: &Examination,
    questions: Vec<Cmd>,
) -> Result<Examined, Fault> {
    let patience = examination.timeout;
    // The handshake of coordinators, which refuses what they would refuse.
    let purpose = Purpose::Commands {
        scripts: Arc::default(),
    };
    let Dialled {
        mut connection,
        driver: _driver,
        certificate_expires,
        ..
    } = dial(target, &purpose, patience, 0).await?;
    let mut conversation = Conversation {
        server: target.label(),
        connection: &mut connection,
        patience,
    };
    let clock = conversation.read_clock().await?;
    let mut commands = vec![redis::cmd("INFO")];
    commands.extend(SETTINGS.map(|setting| {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(setting);
        command
    }));
    let mut replies = conversation.ask(commands).await?.into_iter();
    let info = replies.next().unwrap_or(Value::Nil);
    let settings = replies.map(config_value);
    let mut report = read(&info, settings.collect());
    report.clock = clock;
    report.certificate_expires = certificate_expires;
    let answers = match questions.is_empty() {
        true => Vec::new(),
        false => conversation.ask(questions).await?,
    };
    let (rules, trials) = rights::trials(target, examination).into_iter().unzip();
    let tried = conversation.ask(trials).await?;
    report.refused = rights::refused(rules, &tried);
    report.refuses = rights::refuses(&target.label(), &tried);
    let listens = listen(target, patience).await;
    report.refused.extend(rights::unheard(listens, target)?);
    report.refused.sort();
    report.refused.dedup();
    let run = info_field(&info, "run_id");
    Ok(Examined {
        report,
        run,
        answers,
    })
}

/// Subscribes to what coordinators listen to.
async fn listen(target: &RedisTarget, patience: Duration) -> Result<(), Fault> {
    let purpose = Purpose::Subscription {
        channels: Arc::new([rights::channel().into_bytes()]),
        patterns: Arc::new([rights::gate(target).into_bytes()]),
        listener: Arc::new(|_| Ok(())),
    };
    dial(target, &purpose, patience, 0).await.map(drop)
}

impl Conversation<'_> {
    async fn ask(&mut self, commands: Vec<Cmd>) -> Result<Vec<Value>, Fault> {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command);
        }
        let number = pipeline.len();
        let sent = self.connection.send_packed_commands(&pipeline, 0, number);
        let server = &self.server;
        match timeout(self.patience, sent).await {
            Ok(Ok(replies)) => Ok(replies),
            Ok(Err(error)) => {
                let reason = format!("the connection to {server} broke: {error}");
                Err(Fault::new(DownCause::Lost, reason))
            }
            Err(_) => {
                let millis = self.patience.as_millis();
                let reason = format!("{server} did not answer within {millis} ms");
                Err(Fault::new(DownCause::TimedOut, reason))
            }
        }
    }

    /// Reads the server's clock, several times, and returns the reading with the smallest error.
    async fn read_clock(&mut self) -> Result<Option<Clock>, Fault> {
        let mut best: Option<Clock> = None;
        for _ in 0..READINGS {
            let asked = SystemTime::now();
            let reply = self.ask(vec![redis::cmd("TIME")]).await?.pop();
            let answered = SystemTime::now();
            let time = reply.and_then(|reply| redis::from_redis_value::<(i64, i64)>(reply).ok());
            let Some((seconds, micros)) = time else {
                return Ok(None);
            };
            let shown = seconds.saturating_mul(1_000_000).saturating_add(micros);
            let reading = Clock::read(shown, asked, answered);
            if best.is_none_or(|best| reading.within < best.within) {
                best = Some(reading);
            }
        }
        Ok(best)
    }
}

fn read(info: &Value, settings: Vec<Option<String>>) -> ServerReport {
    let field = |name: &str| info_field(info, name);
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let mut settings = settings.into_iter();
    let mut setting = || settings.next().flatten();
    let flag = |text: String| text == "yes";
    ServerReport {
        version: field("redis_version"),
        clock: None,
        maxmemory_policy: setting().or_else(|| field("maxmemory_policy")),
        used_memory: number("used_memory"),
        maxmemory: number("maxmemory").filter(|&bytes| bytes > 0),
        clients: number("connected_clients"),
        max_clients: number("maxclients"),
        appendonly: field("aof_enabled").map(|enabled| enabled == "1"),
        appendfsync: setting(),
        snapshots: setting().map(|save| !save.is_empty()),
        disk_works: {
            let states = ["aof_last_write_status", "rdb_last_bgsave_status"].map(field);
            let mut known = states.into_iter().flatten().peekable();
            known
                .peek()
                .is_some()
                .then(|| known.all(|state| state == "ok"))
        },
        replicas: field("connected_slaves").map(|_| {
            let listed = (0..).map_while(|index| field(&format!("slave{index}")));
            listed.filter_map(|line| replica(&line)).collect()
        }),
        min_replicas_to_write: setting().and_then(|number| number.parse().ok()),
        requires_full_coverage: setting()
            .filter(|_| field("cluster_enabled").is_some_and(|is| is == "1"))
            .map(flag),
        refused: Vec::new(),
        refuses: Vec::new(),
        certificate_expires: None,
        vote: None,
    }
}

/// Reads `ip=10.0.0.2,port=6379,state=online,offset=1,lag=0`.
fn replica(line: &str) -> Option<ReplicaFacts> {
    let field = |name: &str| {
        let mut pairs = line.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    };
    Some(ReplicaFacts {
        address: format!("{}:{}", field("ip")?, field("port")?),
        is_online: field("state") == Some("online"),
        lag: field("lag")
            .and_then(|lag| lag.parse().ok())
            .map(Duration::from_secs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let info = "redis_version:7.2.4\r\nrun_id:ab\r\nconnected_clients:3\r\nmaxclients:10\r\nused_memory:100\r\n\
            maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\naof_last_write_status:ok\r\n\
            rdb_last_bgsave_status:err\r\nrole:master\r\nconnected_slaves:2\r\n\
            slave0:ip=::1,port=7,state=online,offset=1,lag=1\r\nslave1:ip=h,port=8,state=wait_bgsave,offset=0,lag=0\r\n\
            cluster_enabled:0\r\n";
        let settings = [None, Some("always"), Some(""), Some("2"), Some("yes")];
        let settings = settings.map(|setting| setting.map(str::to_owned)).into();
        let report = read(&Value::BulkString(info.into()), settings);
        let replica = |address: &str, is_online, lag| ReplicaFacts {
            address: address.to_owned(),
            is_online,
            lag: Some(Duration::from_secs(lag)),
        };
        let expected = ServerReport {
            version: Some("7.2.4".to_owned()),
            maxmemory_policy: Some("noeviction".to_owned()),
            used_memory: Some(100),
            clients: Some(3),
            max_clients: Some(10),
            appendonly: Some(true),
            appendfsync: Some("always".to_owned()),
            snapshots: Some(false),
            disk_works: Some(false),
            replicas: Some(vec![replica("::1:7", true, 1), replica("h:8", false, 0)]),
            min_replicas_to_write: Some(2),
            ..ServerReport::default()
        };
        assert_eq!(report, expected);
        // The user may not ask.
        assert_eq!(read(&Value::Nil, vec![None; 5]), ServerReport::default());
    }
}
