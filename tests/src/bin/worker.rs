//! A client process for tests: holds locks through the Rust client, and campaigns in elections, by orders on standard input.
//!
//! `worker ENDPOINT TTL_MS` says `ready` when its session is open. Its orders, and what it says to them:
//!
//! | order | answer |
//! |---|---|
//! | `acquire NAME` | `granted NAME TOKEN` or `refused NAME ERROR`; `lost NAME REASON` whenever it is lost |
//! | `share NAME` | the same; held shared |
//! | `permits NAME NUMBER LIMIT` | the same; so many permits of a semaphore |
//! | `acquire-all NAME…` | the same of several names at once: `granted NAME TOKEN` for each |
//! | `closing MS` | nothing: acquires from here on have a lock-delay of MS |
//! | `release NAME` | `released NAME true` or `released NAME false` |
//! | `held NAME` | `held NAME true` or `held NAME false`: what the guard says |
//! | `watch NAME MS` | `watching NAME`; after a pause of at least MS: `after a pause NAME held BOOL`, what the guard said first |
//! | `campaign NAME VALUE` | `elected NAME TOKEN` or `refused NAME ERROR`; `lost NAME REASON` whenever it is lost |
//! | `stand NAME VALUE` | the same, by the wire API on a connection of its own |
//! | `write NAME URL KEY VALUE` | `written NAME BOOL`: whether the fenced resource took the value; written without a look at the guard |
#![expect(clippy::print_stdout, reason = "the answers are the program's output")]

use std::{
    collections::HashMap,
    io::BufRead,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use leasehold_client::{AcquireError, Client, Election, LockGuard, LockWatch, SemaphorePermit};
use leasehold_tests::{FencedResource, RawCandidate, raw};
use tokio::sync::mpsc;
use tonic::transport::Channel;

/// Longest wait for an election.
const LONG: Duration = Duration::from_secs(3600);

/// Guards by the names of their locks.
type Guards = Arc<Mutex<HashMap<String, LockGuard>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, ttl] = &arguments[..] else {
        bail!("usage: worker ENDPOINT TTL_MS");
    };
    let ttl = Duration::from_millis(ttl.parse().context("TTL_MS is a number")?);
    let client = Client::builder().ttl(ttl).connect(endpoint).await?;
    // Standard output is flushed at every end of line.
    println!("ready");

    let guards = Guards::default();
    let mut lock_delay = Duration::ZERO;
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        let words: Vec<&str> = order.split_whitespace().collect();
        match words[..] {
            ["acquire", name] => {
                let request = client.lock(name).lock_delay(lock_delay);
                tokio::spawn(hold_one(
                    name.to_owned(),
                    request.into_future(),
                    guards.clone(),
                ));
            }
            ["share", name] => {
                let request = client.lock(name).shared().lock_delay(lock_delay);
                tokio::spawn(hold_one(
                    name.to_owned(),
                    request.into_future(),
                    guards.clone(),
                ));
            }
            ["permits", name, number, limit] => {
                let number = number.parse().context("NUMBER is a number")?;
                let limit = limit.parse().context("LIMIT is a number")?;
                let request = client.semaphore(name, limit).permits(number);
                let request = request.lock_delay(lock_delay);
                let acquire = async { request.await.map(SemaphorePermit::into_guard) };
                tokio::spawn(hold_one(name.to_owned(), acquire, guards.clone()));
            }
            ["acquire-all", ref names @ ..] => {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                let request = client.lock_all(names.clone()).lock_delay(lock_delay);
                let guards = guards.clone();
                tokio::spawn(async move {
                    match request.await {
                        Ok(all) => all.into_iter().for_each(|guard| hold(guard, &guards)),
                        Err(error) => refused(&names.join(","), error),
                    }
                });
            }
            ["closing", delay] => {
                let delay = delay.parse().context("MS is a number")?;
                lock_delay = Duration::from_millis(delay);
            }
            ["release", name] => {
                let guard = locked(&guards).remove(name);
                let released = match guard {
                    Some(guard) => guard.release().await.is_ok(),
                    None => false,
                };
                println!("released {name} {released}");
            }
            ["held", name] => {
                let held = locked(&guards).get(name).is_some_and(LockGuard::is_held);
                println!("held {name} {held}");
            }
            ["watch", name, pause] => {
                let pause = Duration::from_millis(pause.parse().context("MS is a number")?);
                let watch = locked(&guards).get(name).map(LockGuard::watch);
                let watch = watch.with_context(|| format!("there is no guard of {name}"))?;
                thread::spawn(move || watch_for_a_pause(&watch, pause));
            }
            ["campaign", name, value] => {
                tokio::spawn(campaign(client.election(name), value.to_owned()));
            }
            ["stand", name, value] => {
                let channel = raw::connect(endpoint).await;
                tokio::spawn(stand(channel, name.to_owned(), value.to_owned(), ttl));
            }
            ["write", name, url, key, value] => {
                let token = locked(&guards).get(name).map(LockGuard::fencing_token);
                let token = token.with_context(|| format!("there is no guard of {name}"))?;
                let redis = redis::Client::open(url)?;
                let mut connection = redis.get_multiplexed_async_connection().await?;
                let resource = FencedResource::new(key);
                let taken = resource.write(&mut connection, token.get(), value).await?;
                println!("written {name} {taken}");
            }
            _ => bail!("there is no order `{order}`"),
        }
    }
    Ok(())
}

fn locked(guards: &Guards) -> std::sync::MutexGuard<'_, HashMap<String, LockGuard>> {
    guards.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads orders in a thread: what Tokio offers for standard input does not end with the runtime.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    orders
}

async fn hold_one(
    name: String,
    acquire: impl Future<Output = Result<LockGuard, AcquireError>>,
    guards: Guards,
) {
    match acquire.await {
        Ok(guard) => hold(guard, &guards),
        Err(error) => refused(&name, error),
    }
}

fn refused(name: &str, error: AcquireError) {
    println!("refused {name} {:#}", anyhow::Error::new(error));
}

/// Keeps a guard, and says that it was granted, and later that it was lost.
fn hold(guard: LockGuard, guards: &Guards) {
    let name = guard.name().to_owned();
    let lost = guard.lost();
    println!("granted {name} {}", guard.fencing_token().get());
    locked(guards).insert(name.clone(), guard);
    tokio::spawn(async move { println!("lost {name} {}", lost.await) });
}

/// Leads through the client, for as long as it lasts.
async fn campaign(election: Election, value: String) {
    let name = election.name();
    match election.campaign(value).await {
        Ok(leadership) => {
            println!("elected {name} {}", leadership.fencing_token());
            println!("lost {name} {}", leadership.lost().await);
        }
        Err(error) => refused(name, error),
    }
}

/// Campaigns, and reports in its own words.
async fn stand(channel: Channel, name: String, value: String, ttl: Duration) {
    let mut candidate = RawCandidate::campaign(channel, &name, value.as_bytes(), ttl).await;
    let term = candidate.elected(LONG).await;
    println!("elected {name} {}", term.token);
    let (_, reason) = candidate.lost(LONG).await;
    println!("lost {name} {reason:?}");
}

/// Asks the guard all the time. After a pause of the process, the first answer that was asked for wholly after it is
/// printed.
fn watch_for_a_pause(watch: &LockWatch, pause: Duration) {
    let name = watch.name();
    // Before it says so: from then on, the process may be stopped.
    let mut last = Instant::now();
    println!("watching {name}");
    loop {
        let now = Instant::now();
        let held = watch.is_held();
        if now - last >= pause {
            println!("after a pause {name} held {held}");
            return;
        }
        last = now;
        thread::sleep(Duration::from_millis(1));
    }
}
