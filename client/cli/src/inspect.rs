//! `ls`, `get`, `release` and `status`.

use std::{io, time::SystemTime};

use anyhow::Context;
use leasehold_client::proto::v1;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    connection::Connection,
    exit::{Exit, Outcome},
    say::say,
    show::{
        json, lock,
        table::{self, Table},
    },
};

const SERVICES: [&str; 2] = ["leasehold.v1.LockService", "leasehold.v1.AdminService"];

/// Lists locks, sorted by name.
pub(crate) async fn list(connection: &Connection, prefix: &str, as_json: bool) -> Outcome {
    let admin = connection.admin()?;
    let mut locks = admin
        .list_locks(prefix)
        .await
        .with_context(|| format!("failed to list the locks of {}", connection.endpoint))?;
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
    lock::list(&locks, SystemTime::now()).print(&mut io::stdout().lock())?;
    Ok(Exit::Success)
}

/// Shows one lock.
pub(crate) async fn get(connection: &Connection, name: &str, as_json: bool) -> Outcome {
    let lock = connection
        .admin()?
        .get_lock(name)
        .await
        .with_context(|| format!("failed to look at lock {name:?}"))?;
    if as_json {
        json::print(&json::Lock::from(&lock))?;
        return Ok(Exit::Success);
    }
    table::print(lock::whole(&lock, SystemTime::now()).trim_end())?;
    Ok(Exit::Success)
}

/// Takes a lock from all that hold it.
pub(crate) async fn release(
    connection: &Connection,
    name: &str,
    force: bool,
    as_json: bool,
) -> Outcome {
    if !force {
        say(format_args!(
            "lock {name:?} can only be released by its holders. To take it from them, who may still be at work, say \
             --force."
        ));
        return Ok(Exit::Usage);
    }
    let answer = connection
        .admin()?
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
pub(crate) async fn status(connection: &Connection, as_json: bool) -> Outcome {
    let admin = connection.admin()?;
    let endpoint = connection.endpoint.as_str();
    // Without its store a coordinator still knows its sessions. Of several, the others are asked when one can't be reached;
    // whoever answered this is asked the rest.
    let sessions = admin.list_sessions().await.ok().map(|list| list.len());
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
