//! Tests of the model, on virtual time.

use std::time::Duration;

use leasehold_client::LockView;

use super::{
    super::{input::made, locks::MOST},
    *,
};

struct Scene {
    model: Model,
    now: Now,
}

impl Scene {
    /// Returns a model that knows locks of these names, each with a waiter more than the one before.
    fn with(names: &[&str]) -> Self {
        let mut scene = Self {
            model: Model::new(Sort::Waiters),
            now: made::now(),
        };
        for (waiters, name) in names.iter().enumerate() {
            scene.shows(made::held(name, "worker", scene.now.wall, waiters as u64));
        }
        scene.take(Input::Watched(LockWatchEvent::Ready));
        scene
    }

    fn take(&mut self, input: Input) -> Vec<Output> {
        let outputs = self.model.update(self.now, input);
        self.model.arrange(self.now);
        outputs
    }

    /// Has the watch show a lock.
    fn shows(&mut self, view: LockView) {
        self.take(Input::Watched(LockWatchEvent::Lock(view)));
    }

    fn press(&mut self, key: KeyCode) -> Vec<Output> {
        self.take(Input::Key(key))
    }

    fn keys(&mut self, keys: &str) {
        for key in keys.chars() {
            assert_eq!(self.press(KeyCode::Char(key)), []);
        }
    }

    fn rows(&self) -> Vec<&str> {
        self.model.rows.iter().map(|name| &**name).collect()
    }

    /// Opens the first lock, and shows this of it.
    fn open(&mut self, view: LockView) {
        let look = self.press(KeyCode::Enter);
        assert_eq!(look, [Output::Look(view.name.clone())]);
        self.take(Input::Looked(view.name.clone(), Ok(view)));
    }
}

fn contended() -> LockView {
    let mut view = made::held("a", "worker", made::now().wall, 1);
    view.waiters = vec![made::waiter("next", 3)];
    view
}

#[test]
fn the_chosen_lock_stays_chosen_where_its_row_goes() {
    let mut scene = Scene::with(&["a", "b", "c"]);
    assert_eq!(scene.rows(), ["c", "b", "a"]);
    scene.press(KeyCode::Down);
    assert_eq!(scene.model.at, 1);
    scene.shows(made::held("a", "worker", scene.now.wall, 9));
    assert_eq!(scene.rows(), ["a", "c", "b"]);
    assert_eq!(scene.model.at, 2);
    // The first one, whichever it is.
    scene.press(KeyCode::Home);
    scene.shows(made::held("b", "worker", scene.now.wall, 99));
    assert_eq!((scene.rows()[0], scene.model.at), ("b", 0));
    scene.press(KeyCode::End);
    assert_eq!(scene.model.at, 2);
    scene.press(KeyCode::PageUp);
    assert_eq!(scene.model.at, 0);
}

#[test]
fn a_lock_that_goes_leaves_the_choice_in_its_place() {
    let mut scene = Scene::with(&["a", "b", "c"]);
    scene.press(KeyCode::End);
    let released = made::released("a", "worker");
    scene.take(Input::Watched(LockWatchEvent::Event(released)));
    scene.now.instant += Duration::from_secs(60);
    scene.take(Input::Tick);
    assert_eq!((scene.rows(), scene.model.at), (vec!["c", "b"], 1));
}

#[test]
fn a_filter_is_typed_kept_and_ended() {
    let mut scene = Scene::with(&["orders/1", "orders/2", "users/1"]);
    scene.keys("/users");
    assert_eq!(scene.rows(), ["users/1"]);
    scene.press(KeyCode::Backspace);
    scene.press(KeyCode::Enter);
    assert_eq!(scene.model.filter, "user");
    // A letter is a command again.
    scene.keys("s");
    assert_eq!(scene.model.sort, Sort::Rate);
    scene.press(KeyCode::Esc);
    assert_eq!(scene.rows().len(), 3);
    scene.keys("/nothing");
    assert!(scene.rows().is_empty());
    assert_eq!(scene.press(KeyCode::Down), []);
    scene.press(KeyCode::Esc);
    assert_eq!(scene.rows().len(), 3);
}

#[test]
fn a_release_needs_a_yes_and_is_of_the_holder_that_was_named() {
    let mut scene = Scene::with(&["a"]);
    scene.open(contended());
    scene.keys("x");
    let question = scene.model.page.as_ref().unwrap().question.clone().unwrap();
    assert_eq!(question.who, "worker");
    // Anything else is a no, even the key that quits.
    assert_eq!(scene.press(KeyCode::Char('q')), []);
    assert_eq!(scene.press(KeyCode::Char('y')), []);
    scene.keys("x");
    // A change of the lock meanwhile does not change the question.
    let mut other = made::held("a", "other", scene.now.wall, 0);
    other.holders[0].fencing_token = Some(8.into());
    scene.take(Input::Looked("a".into(), Ok(other)));
    let released = scene.press(KeyCode::Char('y'));
    let expected = Release {
        name: "a".into(),
        target: Target::Holder(7.into()),
        who: "worker".into(),
    };
    assert_eq!(released, [Output::Release(expected.clone())]);
    scene.take(Input::Released(expected, Err("no permission".into())));
    let notice = scene.model.notice.as_deref();
    assert_eq!(notice, Some("failed to release a: no permission"));
}

#[test]
fn a_wait_and_a_foreign_hold_are_ended_by_what_they_have() {
    let mut scene = Scene::with(&["a"]);
    scene.open(contended());
    scene.press(KeyCode::Down);
    scene.press(KeyCode::Down);
    scene.keys("x");
    let released = scene.press(KeyCode::Char('y'));
    let [Output::Release(release)] = &released[..] else {
        panic!("{released:?}")
    };
    assert_eq!((release.target, &*release.who), (Target::Waiter(3), "next"));

    let mut foreign = contended();
    foreign.holders[0].foreign = true;
    foreign.holders[0].fencing_token = None;
    scene.take(Input::Looked("a".into(), Ok(foreign)));
    scene.press(KeyCode::Home);
    scene.keys("x");
    let question = &scene.model.page.as_ref().unwrap().question;
    assert_eq!(question.as_ref().unwrap().target, Target::All);
}

#[test]
fn an_open_lock_is_looked_at_once_at_a_time() {
    let mut scene = Scene::with(&["a"]);
    assert_eq!(scene.press(KeyCode::Enter), [Output::Look("a".into())]);
    assert_eq!(scene.take(Input::Tick), [Output::AskCoordinators]);
    assert_eq!(scene.take(Input::Tick), []);
    scene.take(Input::Looked("a".into(), Err("gone".into())));
    scene.take(Input::Coordinators(Vec::new()));
    let both = [Output::AskCoordinators, Output::Look("a".into())];
    assert_eq!(scene.take(Input::Tick), both);
    // An answer about a lock that is closed by now is of no interest.
    scene.press(KeyCode::Esc);
    scene.take(Input::Looked("a".into(), Ok(contended())));
    assert!(scene.model.page.is_none());
}

#[test]
fn a_gap_is_told_and_a_snapshot_follows() {
    let mut scene = Scene::with(&["a", "b"]);
    scene.take(Input::Watched(LockWatchEvent::Gap("too slow".into())));
    assert!(!scene.model.ready);
    assert!(scene.model.events[0][4].contains("too slow"));
    scene.shows(made::held("b", "worker", scene.now.wall, 0));
    scene.take(Input::Watched(LockWatchEvent::Ready));
    assert_eq!((scene.rows(), scene.model.totals.held), (vec!["b"], 1));
}

#[test]
fn keys_of_the_list() {
    let mut scene = Scene::with(&[]);
    assert_eq!(scene.press(KeyCode::Enter), []);
    assert!(scene.model.page.is_none());
    scene.keys("?");
    assert!(scene.model.help);
    // Any key ends the help.
    scene.keys("q");
    assert_eq!(scene.press(KeyCode::Char('q')), [Output::Quit]);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut scene = Scene::with(&[]);
    for number in 0..MOST + 10 {
        let name = number.to_string();
        let granted = made::granted(&name, "worker", scene.now.wall);
        let input = Input::Watched(LockWatchEvent::Event(granted));
        scene.model.update(scene.now, input);
    }
    scene.model.arrange(scene.now);
    assert_eq!(scene.model.rows.len(), MOST);
    assert_eq!(scene.model.events.len(), EVENTS);
    for _ in 0..2 * LONGEST_FILTER {
        scene.model.typing = true;
        scene.model.press(KeyCode::Char('x'));
    }
    assert_eq!(scene.model.filter.len(), LONGEST_FILTER);
}
