//! Coordinator and a session that holds a lock, before and in an outage.

use std::{
    collections::{HashMap, HashSet},
    fmt::{Display, Write as _},
    fs,
    path::PathBuf,
    time::Duration,
};

use leasehold_proto::v1::{
    GetStatusRequest, admin_service_client::AdminServiceClient,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession,
    raw::{self, acquire_request, exclusive},
    wait,
};
use serde_json::Value;
use tempfile::TempDir;

use super::page::{Row, rows};
use crate::doctor::site::doctor;

/// The TTL of the lock that is held. Renewals are late after two thirds of it.
const TTL: Duration = Duration::from_secs(15);
/// Longest time until something is said or happens, on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Most lines that the log has of one outage, however long it lasts: its causes, its effects on sessions, and its end.
const LINES: usize = 15;

/// Coordinator of a drill.
pub(super) struct Drill {
    row: Row,
    coordinator: CoordinatorProcess,
    store: String,
    /// Further arguments of the doctor.
    doctor: Vec<String>,
    held: Option<RawSession>,
    /// Lines of the log before the outage.
    before: usize,
    folder: TempDir,
    /// What was said, for the reader.
    told: String,
}

impl Drill {
    /// Starts a coordinator on a store that serves, and takes a lock, before the outage begins that has this finding.
    pub(super) async fn begin(finding: &str, store: &str, more: &[&str]) -> Self {
        let mut drill = Self::start(finding, store, more);
        let ready = || drill.coordinator.readiness();
        wait::until("the coordinator to be ready", LIMIT, ready).await;
        let mut session = RawSession::open(&drill.coordinator.endpoint(), TTL).await;
        session.keep_alive(TTL / 15);
        session.take_one(exclusive("held")).await;
        drill.held = Some(session);
        drill.before = drill.coordinator.log().lines().count();
        drill
    }

    /// Starts a coordinator on a store that has the trouble from the beginning.
    pub(super) fn start(finding: &str, store: &str, more: &[&str]) -> Self {
        let row = rows().into_iter().find(|row| row.finding == finding);
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("audit.log");
        let coordinator = Coordinator::process()
            .store(store)
            .arguments(["--audit-log", audit.to_str().unwrap()])
            .arguments(more.iter().copied())
            .start_unready();
        Self {
            row: row.unwrap(),
            coordinator,
            store: store.to_owned(),
            doctor: Vec::new(),
            held: None,
            before: 0,
            folder,
            told: format!("{finding}\n"),
        }
    }

    /// Takes the finding's row with another reason.
    pub(super) fn for_reason(mut self, reason: &str) -> Self {
        let is_it = |row: &Row| row.finding == self.row.finding && row.reason == reason;
        self.row = rows().into_iter().find(is_it).unwrap();
        self
    }

    /// Gives the doctor further arguments.
    pub(super) fn doctor(self, arguments: &[&str]) -> Self {
        Self {
            doctor: arguments.iter().map(|&it| it.to_owned()).collect(),
            ..self
        }
    }

    /// Checks all that the page says about the outage, which has begun.
    pub(super) async fn check(mut self) {
        self.refuses().await;
        self.is_told().await;
        self.is_found();
        self.is_counted().await;
        self.holds().await;
        self.is_audited().await;
        self.is_logged_once();
        print!("{}", self.told);
    }

    /// Waits until a new lock is refused for the reason of the row.
    async fn refuses(&self) {
        let channel = self.coordinator.channel().await;
        wait::until("a new lock to be refused", LIMIT, || async {
            let request = acquire_request("new");
            match LockServiceClient::new(channel.clone())
                .acquire(request)
                .await
            {
                Err(status) if raw::reason(&status) == self.row.reason => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Waits until `/readyz` and the status say what is wrong and what to do, and whether the coordinator serves.
    async fn is_told(&mut self) {
        let link = format!("docs/doctor.md#{}", self.row.finding);
        let readyz = wait::until("/readyz to say it", LIMIT, || async {
            match (self.row.is_ready, self.coordinator.asked("/readyz").await) {
                (true, Ok(body))
                    if body.starts_with("ready, although ") && body.contains(&link) =>
                {
                    Ok(body)
                }
                (false, Err(body)) if body.contains(&link) => Ok(body),
                (_, other) => Err(other),
            }
        })
        .await;
        let channel = self.coordinator.channel().await;
        let status = wait::until("the status to say it", LIMIT, || async {
            let mut admin = AdminServiceClient::new(channel.clone());
            let status = admin.get_status(GetStatusRequest {}).await.unwrap();
            let status = status.into_inner();
            let is_it = status.serving == self.row.is_ready && status.reason.contains(&link);
            if is_it { Ok(status) } else { Err(status) }
        })
        .await;
        let (serving, reason) = (status.serving, status.reason);
        let body = readyz.rsplit("\r\n\r\n").next().unwrap_or_default();
        self.tell("/readyz", body.trim_end());
        self.tell("status", format!("serving={serving} {reason}"));
    }

    /// Waits until the doctor has the finding for the server, and one for the coordinator.
    fn is_found(&mut self) {
        let more: Vec<_> = self.doctor.iter().map(String::as_str).collect();
        let of_coordinator = match self.row.is_ready {
            true => "commands-refused",
            false => "coordinator-not-serving",
        };
        let found = wait::until_blocking("the doctor to find it", LIMIT, || {
            let told = doctor(&self.coordinator.endpoint(), Some(&self.store), &more);
            let has = |check| told.kinds().contains(&(check, "error"));
            match has(self.row.finding) && has(of_coordinator) && told.code == 6 {
                true => Ok(told.finding(self.row.finding).clone()),
                false => Err(told),
            }
        });
        assert_eq!(found["remedy"], self.row.remedy, "{found}");
        let (subject, what) = (&found["subject"], found["what"].as_str().unwrap());
        assert!(!what.starts_with(subject.as_str().unwrap()), "{found}");
        self.tell("doctor", format!("{subject}: {what}"));
    }

    /// Checks the metrics.
    async fn is_counted(&mut self) {
        let error = match self.row.reason {
            "STORE_REFUSED" => "refused",
            "NOT_REPLICATED" => "not_replicated",
            _ => "unavailable",
        };
        let metrics = self.coordinator.metrics().await;
        let is_ready = f64::from(u8::from(self.row.is_ready));
        for gauge in ["leasehold_ready", "leasehold_store_up"] {
            assert_eq!(metrics.sum(gauge), is_ready, "{gauge}");
        }
        let label = format!("error=\"{error}\"");
        let errors = metrics.of("leasehold_store_script_errors_total", &[&label]);
        assert!(errors >= 1.0, "{errors}");
        self.tell(
            "metrics",
            format!("leasehold_ready={is_ready} errors{{{label}}}={errors}"),
        );
    }

    /// Waits until the lock that is held has been renewed for longer than its TTL, or has run out.
    async fn holds(&mut self) {
        let Some(mut session) = self.held.take() else {
            return;
        };
        if !self.row.holds_are_kept {
            if self.row.is_ready {
                wait::until("late renewals to be told", LIMIT, || async {
                    match self.coordinator.readiness().await {
                        Err(reason) if reason.contains("are late") => Ok(()),
                        other => Err(other),
                    }
                })
                .await;
            }
            let lost = session.lost(LIMIT).await;
            assert_eq!(lost[0].name, "held");
            return;
        }
        let begun = self.renewals().await;
        wait::until("the hold to be renewed", LIMIT, || async {
            let renewals = self.renewals().await - begun;
            // One in a third of the TTL.
            if renewals > 3.0 {
                Ok(())
            } else {
                Err(renewals)
            }
        })
        .await;
        assert_eq!(session.unread_unasked().len(), 0);
        self.held = Some(session);
    }

    async fn renewals(&self) -> f64 {
        let metrics = self.coordinator.metrics().await;
        let name = "leasehold_store_script_seconds_count";
        metrics.of(name, &["script=\"renew\""])
    }

    /// Checks that the audit log has no grant of the outage, and the end of the hold if it ran out.
    async fn is_audited(&mut self) {
        let is_over = !self.row.holds_are_kept && self.before > 0;
        let ends = ["lost", "expired", "released"];
        let lines = wait::until("the audit log to have the end", LIMIT, || async {
            let lines = self.audited();
            let ended = lines
                .get("held")
                .is_some_and(|events| events.iter().any(|event| ends.contains(&&**event)));
            if ended == is_over {
                Ok(lines)
            } else {
                Err(lines)
            }
        })
        .await;
        assert_eq!(lines.get("new"), None, "{lines:?}");
        self.tell("audit", format!("{lines:?}"));
    }

    /// Returns the events of each lock in the audit log.
    fn audited(&self) -> HashMap<String, Vec<String>> {
        let path: PathBuf = self.folder.path().join("audit.log");
        let mut events: HashMap<String, Vec<String>> = HashMap::new();
        for line in fs::read_to_string(path).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(lock) = line["lock"].as_str() {
                let event = line["event"].as_str().unwrap().to_owned();
                events.entry(lock.to_owned()).or_default().push(event);
            }
        }
        events
    }

    /// Checks that the log has a warning of what is wrong, with Redis's answer and what to do, and repeats nothing.
    fn is_logged_once(&mut self) {
        let log = self.coordinator.log();
        let lines: Vec<_> = log.lines().skip(self.before).collect();
        let link = format!("docs/doctor.md#{})", self.row.finding);
        let told: Vec<_> = lines.iter().filter(|line| line.contains(&link)).collect();
        let answers = &self.row.answers;
        let has_answer = |line: &str| answers.iter().any(|answer| line.contains(answer));
        let first = told.first();
        let is_warning = first.is_some_and(|line| {
            line.contains(" WARN ")
                && (!self.row.is_ready || answers.is_empty() || has_answer(line))
        });
        assert!(is_warning, "{log}");
        // After the time.
        let words = |line: &&&str| line.split_once(' ').map(|(_, words)| words.to_owned());
        let different: HashSet<_> = told.iter().map(words).collect();
        assert_eq!(different.len(), told.len(), "the same is repeated: {log}");
        assert!(lines.len() <= LINES, "{} lines: {log}", lines.len());
        let line = (*told[0]).to_owned();
        self.tell("log", line);
    }

    fn tell(&mut self, what: &str, told: impl Display) {
        writeln!(self.told, "  {what:8} {told}").unwrap();
    }
}
