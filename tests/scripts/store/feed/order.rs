//! Order of commands on one lock: that of sending, even if no caller waits for the answers.

use leasehold_core::{
    command::{Op, Reply},
    mode::Mode,
    name::Value,
};
use leasehold_store::Answer;
use tokio::sync::oneshot;

use super::world::{World, acquire, command};
use crate::common::owner;

/// Often enough that two tasks that send at the same time would be seen to change places.
const ROUNDS: u32 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_sent_later_are_executed_later() {
    for world in World::each().await {
        world.run("x", acquire(1, Mode::Exclusive)).await;
        for round in 0..ROUNDS {
            let mut last = None;
            for number in 0..3 {
                let value = Value::parse(format!("{round}.{number}").as_bytes()).unwrap();
                let op = Op::SetValue {
                    owner: owner(1),
                    value,
                };
                let (answer, answered) = oneshot::channel();
                world.store.send(command("x", op), Answer::once(answer));
                last = Some(answered);
                // Now and then the one before is on its way already.
                if round % 2 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            last.unwrap().await.unwrap().unwrap();
            let Reply::Seen(view) = world.run("x", Op::view(0)).await.reply else {
                panic!("a view shows");
            };
            let leasehold_core::view::HolderView::Ours(hold) = &view.holders[0] else {
                panic!("it is ours");
            };
            assert_eq!(hold.value.as_bytes(), format!("{round}.2").as_bytes());
        }
    }
}
