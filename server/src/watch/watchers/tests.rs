//! Tests of the watchers' queues, snapshots and turns.

use futures_util::FutureExt;
use leasehold_core::{
    time::StoreTime,
    watch::{EventKind, Standing},
};

use super::*;

const BEHIND: usize = 1024;

fn name(text: &str) -> LockName {
    LockName::parse(text).unwrap()
}

fn event(text: &str) -> Arc<Event> {
    Arc::new(Event {
        name: name(text),
        at: StoreTime::from_micros(0),
        kind: EventKind::Queued,
        holder: None,
        waiter: None,
        closed_for: None,
        limit: None,
        after: Standing::default(),
    })
}

fn view(text: &str) -> (LockName, NameView) {
    (name(text), NameView::default())
}

/// Tells a message that does not come from a busy machine.
const HANG: std::time::Duration = std::time::Duration::from_secs(60);

/// Returns the next message, in short.
async fn said(watcher: &mut Watcher) -> String {
    match watcher.next().await {
        Message::Lock(name, _) => format!("lock {name}"),
        Message::Ready { lock_count } => format!("ready {lock_count}"),
        Message::Event(event) => format!("event {}", event.name),
        Message::Gap(why) => format!("gap: {why}"),
    }
}

struct Scene {
    watchers: Watchers,
    watcher: Watcher,
    id: u64,
    asked: mpsc::UnboundedReceiver<Signal>,
}

fn one(prefix: &str) -> Scene {
    let (signals, asked) = mpsc::unbounded_channel();
    let mut watchers = Watchers::new(signals, BEHIND);
    let (id, watcher) = watchers.add(prefix.into());
    Scene {
        watchers,
        watcher,
        id,
        asked,
    }
}

impl Scene {
    /// Returns the next message, while all watchers have turns.
    async fn said(&mut self) -> String {
        self.watchers.give_turns(1);
        let said = tokio::time::timeout(HANG, said(&mut self.watcher));
        said.await.unwrap()
    }

    fn told(&mut self) -> &mut Told {
        self.watchers.get(self.id).unwrap()
    }

    fn begin(&mut self) {
        assert!(self.told().begin_snapshot());
    }

    fn tell(&mut self, text: &str) -> u64 {
        self.watchers.tell(&event(text))
    }
}

#[tokio::test]
async fn a_snapshot_takes_in_what_happens_meanwhile() {
    let mut one = one("a/");
    assert_eq!(one.tell("a/1"), 0, "nothing is known yet");
    one.begin();
    one.told().page(vec![view("a/2"), view("a/4")], false);
    // Behind what it has had, before, and of another prefix.
    one.tell("a/5");
    one.tell("a/3");
    // The last that it has had.
    one.tell("a/4");
    one.tell("b/1");
    assert_eq!(one.said().await, "lock a/2");
    assert_eq!(one.said().await, "lock a/4");
    assert_eq!(one.said().await, "event a/3");
    assert_eq!(one.said().await, "event a/4");
    assert!(one.asked.try_recv().is_err());
    let next = tokio::spawn(async move {
        let said = said(&mut one.watcher).await;
        (said, one.watcher)
    });
    let Some(Signal::More { id }) = one.asked.recv().await else {
        panic!("it asks for more");
    };
    one.watchers.get(id).unwrap().page(vec![view("a/5")], true);
    one.watchers.give_turns(1);
    let (first, mut watcher) = next.await.unwrap();
    assert_eq!(first, "lock a/5");
    one.watchers.tell(&event("a/9"));
    one.watchers.give_turns(1);
    assert_eq!(said(&mut watcher).await, "ready 3");
    assert_eq!(said(&mut watcher).await, "event a/9");
}

#[tokio::test]
async fn one_that_does_not_read_is_told_of_a_gap_and_holds_up_to_a_bound() {
    let mut one = one("");
    one.begin();
    one.told().page(Vec::new(), true);
    for number in 1..BEHIND {
        assert_eq!(one.tell(&number.to_string()), 0);
    }
    assert_eq!(one.tell("too much"), 1);
    assert_eq!(one.tell("and more"), 0, "it is between snapshots");
    assert_eq!(one.told().queue.waiting.lock().items.len(), 1);
    assert!(one.said().await.starts_with("gap"));
    let (watcher, asked) = (&mut one.watcher, &mut one.asked);
    tokio::select! {
        said = said(watcher) => panic!("{said}"),
        request = asked.recv() => assert!(matches!(request, Some(Signal::More { .. }))),
    }
    one.told().page(Vec::new(), true);
    assert_eq!(one.said().await, "ready 0");
}

#[tokio::test]
async fn starting_over_is_told_once_and_only_to_those_who_knew_anything() {
    let mut one = one("");
    one.told().start_over("at the beginning");
    one.begin();
    one.told().page(Vec::new(), true);
    one.told().start_over("lost");
    one.told().start_over("lost again");
    assert_eq!(one.said().await, "gap: lost");
    one.begin();
    one.told().page(vec![view("x")], true);
    assert_eq!(one.said().await, "lock x");
    assert!(one.asked.try_recv().is_err(), "nothing to ask for");
}

#[test]
fn a_prefix_is_given_back_with_its_last_watcher() {
    let mut one = one("a/");
    let (other, _watcher) = one.watchers.add("a/".into());
    assert_eq!(one.watchers.remove(one.id), None);
    assert_eq!(one.watchers.remove(one.id), None);
    assert_eq!(one.watchers.remove(other).as_deref(), Some("a/"));
    drop(one.watcher);
    assert!(matches!(one.asked.try_recv(), Ok(Signal::Unwatch { id }) if id == one.id));
}

#[tokio::test]
async fn watchers_with_something_to_read_have_turns_one_after_the_other() {
    let mut one = one("");
    one.begin();
    one.told().page(Vec::new(), true);
    assert_eq!(one.said().await, "ready 0");
    for number in 0..=IN_A_TURN {
        one.tell(&number.to_string());
    }
    // It has its turn from before, of which one is gone.
    for number in 0..IN_A_TURN - 1 {
        assert_eq!(said(&mut one.watcher).await, format!("event {number}"));
    }
    assert!(said(&mut one.watcher).now_or_never().is_none());
    assert!(matches!(one.asked.try_recv(), Ok(Signal::Again { id }) if id == one.id));
    assert!(!one.watchers.are_lined_up(), "not before it is asked");
    one.told().line_up();
    one.told().line_up();
    one.watchers.give_turns(1);
    assert!(!one.watchers.are_lined_up(), "it was once");
    assert_eq!(one.said().await, format!("event {}", IN_A_TURN - 1));
    assert_eq!(one.said().await, format!("event {IN_A_TURN}"));
    assert!(said(&mut one.watcher).now_or_never().is_none());
    one.tell("next");
    assert!(
        said(&mut one.watcher).now_or_never().is_none(),
        "not without a turn"
    );
    assert_eq!(one.said().await, "event next");
}
