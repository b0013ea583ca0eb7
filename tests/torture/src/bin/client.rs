//! Client of the torture run: takes locks in several tasks, writes to their registers, and records what it believes.
//!
//! `torture-client NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE [CREDENTIALS]`. It ends each task's cycle and then itself when its
//! standard input ends. A task writes to the register of a lock without a look at its guard: fencing has to stop what comes late.

use std::{sync::Arc, time::Duration};

use leasehold_client::{AcquireError, Client, LockGuard, LockState, SemaphorePermit};
use leasehold_torture::{
    history::now,
    locks::{Cycle, LIMIT, Mode},
    shown,
    worker::{Ask, Registers, Worker, after, run_tasks},
};
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Longest time between two looks at a guard.
const LOOK: Duration = Duration::from_millis(40);
/// Pause after an error.
const PAUSE: Duration = Duration::from_millis(200);

/// State that all tasks share.
struct World {
    client: Client,
    worker: Arc<Worker>,
    /// The store is a quorum, where each coordinator has a queue of its own.
    quorum: bool,
    /// Sessions move to other coordinators at any time, to show newer credentials.
    moves: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    #[cfg(feature = "planted")]
    if let Err(name) = leasehold_client::planted::plant_from_environment() {
        anyhow::bail!("there is no fault {name} to plant");
    }
    let worker = Worker::start();
    let arguments = &worker.arguments;
    let mut builder = Client::builder();
    if let Some(folder) = &arguments.credentials {
        builder = shown::follow(builder, folder);
    }
    let builder = builder
        .client_name(arguments.name.clone())
        .ttl(arguments.ttl)
        .disconnect_grace(arguments.grace);
    let client = loop {
        match builder.clone().connect(&*arguments.endpoints).await {
            Ok(client) => break client,
            Err(_) if worker.stop.is_cancelled() => {
                worker.finished();
                return Ok(());
            }
            // A fault is on.
            Err(_) => sleep(PAUSE).await,
        }
    };
    let world = Arc::new(World {
        client,
        quorum: arguments.store == "quorum",
        moves: arguments.credentials.is_some(),
        worker: Arc::clone(&worker),
    });
    run_tasks(arguments, |random| live(Arc::clone(&world), random)).await?;
    // What it still has, it loses with the end of the process.
    let _ = timeout(Duration::from_secs(10), world.client.close()).await;
    worker.finished();
    Ok(())
}

async fn live(world: Arc<World>, mut random: StdRng) {
    let registers = Registers::default();
    while !world.worker.stop.is_cancelled() {
        let cycle = Cycle::draw(&mut random, world.quorum);
        world.run(&cycle, &registers).await;
        tokio::select! {
            () = sleep(cycle.pause) => {}
            () = world.worker.stop.cancelled() => {}
        }
    }
}

impl World {
    async fn run(&self, cycle: &Cycle, registers: &Registers) {
        let queue = if self.quorum {
            let session = self.client.default_session().info();
            let coordinator = session.map_or(String::new(), |info| info.coordinator);
            match self.moves {
                // It may join another queue meanwhile: it is in line with nobody.
                true => format!("{coordinator} {}", now()),
                false => coordinator,
            }
        } else {
            String::new()
        };
        let ask = self.worker.asks(cycle, &queue);
        let give_up = cycle.give_up.unwrap_or(Duration::MAX);
        match timeout(give_up, Box::pin(self.acquire(cycle))).await {
            Ok(Ok(guard)) => self.hold(ask, cycle, guard, registers).await,
            Ok(Err(AcquireError::TimedOut { .. })) => ask.ended("timed_out", ""),
            Ok(Err(AcquireError::Busy { .. })) => ask.ended("busy", ""),
            Ok(Err(
                error @ (AcquireError::Unauthenticated { .. }
                | AcquireError::PermissionDenied { .. }),
            )) => {
                ask.ended("refused", &error.to_string());
                sleep(PAUSE).await;
            }
            Ok(Err(error)) => {
                ask.ended("failed", &format!("{:#}", anyhow::Error::new(error)));
                sleep(PAUSE).await;
            }
            Err(_) => ask.ended("cancelled", ""),
        }
    }

    async fn acquire(&self, cycle: &Cycle) -> Result<LockGuard, AcquireError> {
        if let Mode::Permits(permits) = cycle.mode {
            let semaphore = self.client.semaphore(&*cycle.lock, LIMIT);
            let mut request = semaphore.permits(permits).lock_delay(cycle.lock_delay);
            if let Some(wait) = cycle.wait {
                request = request.wait(wait);
            }
            return request.await.map(SemaphorePermit::into_guard);
        }
        let mut request = self.client.lock(&*cycle.lock).lock_delay(cycle.lock_delay);
        if cycle.mode == Mode::Shared {
            request = request.shared();
        }
        if let Some(wait) = cycle.wait {
            request = request.wait(wait);
        }
        request.await
    }

    /// Holds a lock for the cycle's time or until it is lost, writes to its register, and records all that the guard says.
    async fn hold(&self, ask: Ask<'_>, cycle: &Cycle, guard: LockGuard, registers: &Registers) {
        let token = Some(guard.fencing_token().get());
        let mut held = ask.granted(token, deadline(&guard));
        let end = Instant::now() + cycle.hold;
        let mut last = LockState::Held;
        loop {
            let state = guard.state();
            match (last, state) {
                (_, LockState::Lost(why)) => {
                    held.lost(&why.to_string());
                    // The late write of a client that does not know better.
                    registers.write(&self.worker, cycle, token).await;
                    return;
                }
                (LockState::Held, LockState::Suspended) => held.suspended(),
                (LockState::Suspended, LockState::Held) => held.resumed(deadline(&guard)),
                (_, LockState::Held) => {
                    let until = deadline(&guard);
                    // It may have been lost since.
                    if guard.is_held() {
                        held.extended(until);
                    }
                }
                _ => {}
            }
            last = state;
            if Instant::now() >= end {
                break;
            }
            let changed = guard.changed();
            registers.write(&self.worker, cycle, token).await;
            tokio::select! {
                _ = changed => {}
                () = sleep_until(end.min(Instant::now() + LOOK)) => {}
            }
        }
        held.releasing();
        held.released(guard.release().await.is_ok());
    }
}

/// Returns the time until which a guard may be relied on. The clock is read first, so that it is never too late.
fn deadline(guard: &LockGuard) -> u64 {
    let now = now();
    after(now, guard.valid_for())
}
