//! `ls`, `get`, `release` and `status`.

use std::io;

use anyhow::Context;
use leasehold_client::{Admin, proto::v1};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    exit::{Exit, Outcome},
    show::{
        json,
        table::{self, Table},
        text,
    },
};

const SERVICES: [&str; 2] = ["leasehold.v1.LockService", "leasehold.v1.AdminService"];

/// Lists locks, sorted by name.
pub(crate) async fn list(endpoint: &str, prefix: &str, as_json: bool) -> Outcome {
    let admin = Admin::connect(endpoint)?;
    let mut locks = admin
        .list_locks(prefix)
        .await
        .with_context(|| format!("failed to list the locks of {endpoint}"))?;
    // A scan may show one twice.
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    locks.dedup_by(|a, b| a.name == b.name);
    if as_json {
        let locks: Vec<_> = locks.iter().map(json::Lock::from).collect();
        json::print(&locks)?;
        return Ok(Exit::Success);
    }
    if locks.is_empty() {
        table::print("no locks")?;
        return Ok(Exit::Success);
    }
    let mut out = Table::new(&["NAME", "HOLDER", "TOKEN", "HELD FOR", "TTL", "WAITERS"]);
    for lock in &locks {
        let holder = lock.holders.first();
        let duration = |duration| duration_or_dash(text::wire_duration(duration));
        out.row(vec![
            text::escaped(lock.name.as_bytes()),
            holder.map_or_else(|| state(lock), text::holder),
            token(lock.fencing_token),
            duration_or_dash(holder.and_then(|holder| text::age(holder.acquired_at))),
            duration(holder.map_or(lock.closed_for, |holder| holder.ttl)),
            lock.waiter_count.to_string(),
        ]);
    }
    out.print(&mut io::stdout().lock())?;
    Ok(Exit::Success)
}

/// Shows one lock.
pub(crate) async fn get(endpoint: &str, name: &str, as_json: bool) -> Outcome {
    let lock = Admin::connect(endpoint)?
        .get_lock(name)
        .await
        .with_context(|| format!("failed to look at lock {name:?}"))?;
    if as_json {
        json::print(&json::Lock::from(&lock))?;
        return Ok(Exit::Success);
    }
    let mut out = io::stdout().lock();
    let mut facts = Table::new(&["name", &text::escaped(lock.name.as_bytes())]);
    let mut fact = |what: &str, is: String| facts.row(vec![what.to_owned(), is]);
    fact("state", state(&lock));
    fact("newest token", token(lock.fencing_token));
    for holder in &lock.holders {
        fact("holder", text::holder(holder));
        if !holder.session_id.is_empty() {
            fact("session", text::escaped(holder.session_id.as_bytes()));
        }
        if !holder.coordinator.is_empty() {
            fact("coordinator", text::escaped(holder.coordinator.as_bytes()));
        }
        fact("held for", duration_or_dash(text::age(holder.acquired_at)));
        let ttl = text::wire_duration(holder.ttl);
        fact("ttl left", ttl.map_or("never ends".into(), text::duration));
        if !holder.value.is_empty() {
            fact("value", text::escaped(&holder.value));
        }
    }
    if let Some(delay) = text::wire_duration(lock.lock_delay) {
        fact("lock-delay", text::duration(delay));
    }
    fact("waiters", lock.waiter_count.to_string());
    facts.print(&mut out)?;
    if !lock.waiters.is_empty() {
        let mut waiters = Table::new(&["", "WAITER", "WAITING FOR", "COORDINATOR"]);
        for waiter in &lock.waiters {
            waiters.row(vec![
                waiter.position.to_string(),
                who_waits(waiter),
                duration_or_dash(text::age(waiter.waiting_since)),
                text::escaped(waiter.coordinator.as_bytes()),
            ]);
        }
        waiters.print(&mut out)?;
    }
    Ok(Exit::Success)
}

/// Takes a lock from its holder.
pub(crate) async fn release(endpoint: &str, name: &str, force: bool, as_json: bool) -> Outcome {
    if !force {
        eprintln!(
            "leasehold: lock {name:?} can only be released by its holder. To take it from the holder, which may still \
             be at work, say --force."
        );
        return Ok(Exit::Usage);
    }
    let answer = Admin::connect(endpoint)?
        .force_release(name)
        .await
        .with_context(|| format!("failed to release lock {name:?}"))?;
    if as_json {
        json::print(&json::Released {
            released: answer.released,
            fencing_token: answer.fencing_token,
        })?;
    } else if answer.released {
        table::print(&format!(
            "released; the token is {} now",
            answer.fencing_token
        ))?;
    } else {
        table::print("it was free; nothing was released")?;
    }
    Ok(Exit::Success)
}

/// Shows whether the coordinator serves, and how much it holds.
pub(crate) async fn status(endpoint: &str, as_json: bool) -> Outcome {
    let admin = Admin::connect(endpoint)?;
    let mut health = HealthClient::new(admin.channel());
    let mut services = Vec::new();
    for service in SERVICES {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health
            .check(request)
            .await
            .map_err(leasehold_client::Failure::from)
            .with_context(|| {
                format!("failed to ask the coordinator at {endpoint} for its health")
            })?;
        services.push(json::Service {
            name: service.to_owned(),
            status: answer.into_inner().status().as_str_name(),
        });
    }
    let serving = services
        .iter()
        .all(|service| service.status == ServingStatus::Serving.as_str_name());
    // Without its store a coordinator still knows its sessions.
    let sessions = admin.list_sessions().await.ok().map(|list| list.len());
    let locks = admin.list_locks("").await.ok();
    let held = |lock: &&v1::LockView| !lock.holders.is_empty();
    let status = json::Status {
        endpoint: endpoint.to_owned(),
        serving,
        services,
        sessions,
        locks_held: locks.as_ref().map(|all| all.iter().filter(held).count()),
        waiters: locks
            .as_ref()
            .map(|all| all.iter().map(|lock| lock.waiter_count).sum()),
    };
    if as_json {
        json::print(&status)?;
    } else {
        let count = |count: Option<u64>| count.map_or("unknown".to_owned(), |n| n.to_string());
        let mut facts = Table::new(&["endpoint", endpoint]);
        for service in &status.services {
            facts.row(vec![service.name.clone(), service.status.to_owned()]);
        }
        facts.row(vec![
            "sessions here".into(),
            count(sessions.map(|n| n as u64)),
        ]);
        facts.row(vec![
            "locks held".into(),
            count(status.locks_held.map(|n| n as u64)),
        ]);
        facts.row(vec!["waiters".into(), count(status.waiters)]);
        facts.print(&mut io::stdout().lock())?;
    }
    Ok(if serving {
        Exit::Success
    } else {
        Exit::Unavailable
    })
}

fn state(lock: &v1::LockView) -> String {
    match (
        lock.holders.is_empty(),
        text::wire_duration(lock.closed_for),
    ) {
        (false, _) => "held".into(),
        (true, Some(left)) => format!("closed for {}", text::duration(left)),
        (true, None) => "free".into(),
    }
}

fn token(token: i64) -> String {
    match token {
        0 => "-".into(),
        token => token.to_string(),
    }
}

fn duration_or_dash(duration: Option<std::time::Duration>) -> String {
    duration.map_or("-".into(), text::duration)
}

fn who_waits(waiter: &v1::Waiter) -> String {
    if !waiter.client_name.is_empty() {
        text::escaped(waiter.client_name.as_bytes())
    } else if !waiter.session_id.is_empty() {
        format!("session {}", text::escaped(waiter.session_id.as_bytes()))
    } else {
        "(no session)".into()
    }
}
