//! Driver of `top`: connects the model with the keyboard, the terminal and the coordinators.

use std::{
    future::pending,
    io::{self, IsTerminal},
    time::Duration,
};

use anyhow::Context;
use crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream::FuturesUnordered,
};
use leasehold_client::{Admin, LockWatchEvent, LockWatcher};
use tokio::{
    signal::unix::SignalKind,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};

use super::{
    input::{Input, Now, Output, Release, Target},
    model::Model,
    options::TopOptions,
    screen::Screen,
    view::{self, Theme},
};
use crate::{
    connection::Connection,
    exit::{Exit, Mistake, Outcome},
    outage::{LOOK, WatcherContact},
    show::text,
    signals::Signals,
};

/// Interval of the model's ticks.
const TICK: Duration = Duration::from_secs(1);
/// Shortest time between two pictures, unless the user pressed a key.
const PICTURE: Duration = Duration::from_millis(200);
/// Time that coordinators have for their status.
const ANSWER: Duration = Duration::from_secs(5);

const WHAT: &str = "failed to watch the locks";

/// Shows what happens until the user has seen enough.
pub(crate) async fn top(connection: &Connection, options: &TopOptions) -> Outcome {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let mistake = "top needs a terminal for its input and output; for scripts and pipes, use `leasehold watch` or \
                       `leasehold ls`";
        return Err(Mistake(mistake.to_owned()).into());
    }
    let admin = connection.admin()?;
    let mut watcher = admin.watch_locks(options.prefix.as_str());
    // Before the screen is taken, so that an error stays to be read.
    let Some(first) = first(&mut watcher).await? else {
        return Ok(Exit::SUCCESS);
    };
    let mut signals = Signals::listen([
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ])?;
    let mut model = Model::new(options.sort);
    model.update(Now::read(), Input::Watched(first));
    let mut screen = Screen::open()?;
    let run = Run {
        admin: &admin,
        model,
        theme: Theme::of_this_terminal(),
        work: FuturesUnordered::new(),
        picture: Some(Instant::now()),
    };
    run.run(&mut watcher, &mut signals, &mut screen).await
}

/// Returns the first message. Fails if no coordinator serves now.
async fn first(watcher: &mut LockWatcher) -> anyhow::Result<Option<LockWatchEvent>> {
    loop {
        tokio::select! {
            biased;
            item = watcher.next() => {
                let item = item.transpose();
                return item.map_err(|failure| anyhow::Error::new(failure).context(WHAT));
            }
            () = sleep(LOOK) => WatcherContact::default().looked(watcher.interruption()).context(WHAT)?,
        }
    }
}

struct Run<'a> {
    admin: &'a Admin,
    model: Model,
    theme: Theme,
    /// Requests under way: at most one of each kind that the model repeats, and the user's releases.
    work: FuturesUnordered<BoxFuture<'a, Input>>,
    /// Time of the next picture, if anything has changed since the last one.
    picture: Option<Instant>,
}

impl Run<'_> {
    async fn run(
        mut self,
        watcher: &mut LockWatcher,
        signals: &mut Signals,
        screen: &mut Screen,
    ) -> Outcome {
        let mut keys = EventStream::new();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.picture;
            let picture = async move {
                match due {
                    Some(time) => sleep_until(time).await,
                    None => pending().await,
                }
            };
            let input = tokio::select! {
                biased;
                signal = signals.next() => return Ok(Exit::signal(signal)),
                event = keys.next() => match event {
                    Some(event) => match key(&event?) {
                        Some(Pressed::Interrupt) => {
                            return Ok(Exit::signal(SignalKind::interrupt().as_raw_value()));
                        }
                        Some(Pressed::Key(key)) => {
                            self.picture = Some(Instant::now());
                            Input::Key(key)
                        }
                        // The size, for example.
                        None => {
                            self.draw(screen)?;
                            continue;
                        }
                    },
                    None => return Ok(Exit::SUCCESS),
                },
                () = picture => {
                    self.draw(screen)?;
                    continue;
                }
                _ = ticks.tick() => {
                    let why = watcher.interruption().map(ToString::to_string);
                    self.take(Input::Interrupted(why));
                    Input::Tick
                }
                Some(input) = self.work.next(), if !self.work.is_empty() => input,
                item = watcher.next() => match item {
                    Some(Ok(news)) => Input::Watched(news),
                    Some(Err(failure)) => return Err(anyhow::Error::new(failure).context(WHAT)),
                    None => return Ok(Exit::SUCCESS),
                },
            };
            if self.take(input) {
                return Ok(Exit::SUCCESS);
            }
        }
    }

    fn draw(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.picture = None;
        let now = Now::read();
        self.model.arrange(now);
        screen.draw(|frame| view::draw(&self.model, self.theme, now, frame))
    }

    /// Gives an input to the model, and starts what it wants. Returns whether that is the end.
    fn take(&mut self, input: Input) -> bool {
        self.picture.get_or_insert_with(|| Instant::now() + PICTURE);
        let mut ends = false;
        for output in self.model.update(Now::read(), input) {
            let admin = self.admin;
            let work = match output {
                Output::Quit => {
                    ends = true;
                    continue;
                }
                Output::AskCoordinators => {
                    async move { Input::Coordinators(admin.status(ANSWER).await) }.boxed()
                }
                Output::Look(name) => async move {
                    let view = admin.get_lock(&name).await;
                    Input::Looked(name, view.map_err(|failure| failure.to_string()))
                }
                .boxed(),
                Output::Release(release) => release_by_force(admin, release).boxed(),
            };
            self.work.push(work);
        }
        ends
    }
}

async fn release_by_force(admin: &Admin, release: Release) -> Input {
    let name = &release.name;
    let answer = match release.target {
        Target::All => admin.force_release(name).await,
        Target::Holder(token) => admin.force_release_holder(name, token).await,
        Target::Waiter(number) => admin.force_release_waiter(name, number).await,
    };
    let answer = answer.map_err(|failure| text::escaped(failure.to_string()));
    Input::Released(release, answer)
}

enum Pressed {
    Key(KeyCode),
    /// Ctrl-C: the terminal sends no signal while `top` reads single keys.
    Interrupt,
}

fn key(event: &Event) -> Option<Pressed> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(Pressed::Interrupt)
        }
        _ if key
            .modifiers
            .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
        {
            None
        }
        code => Some(Pressed::Key(code)),
    }
}
