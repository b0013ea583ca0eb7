//! The cases.

mod elections;
mod ends;
mod locks;
mod modes;
mod operators;
mod queues;
mod resumes;
pub(crate) mod tokens;

use futures_util::future::{BoxFuture, FutureExt, join_all};

use super::site::Site;

/// Runs every case; how many there were. One that fails is the panic that ends the test.
pub(crate) async fn all(site: &Site) -> usize {
    let mut cases: Vec<BoxFuture<'_, ()>> = Vec::new();
    macro_rules! cases {
        ($($case:path),* $(,)?) => {
            $(cases.push($case(site).boxed());)*
        };
    }
    cases!(
        locks::is_granted_once_and_tokens_rise,
        locks::is_released_once_and_by_its_holder_alone,
        locks::without_a_stream,
        locks::without_a_stream_and_repeated,
        locks::runs_out_unless_renewed,
        locks::is_renewed_by_heartbeats,
        locks::has_a_value,
        locks::stays_closed_for_its_lock_delay,
        locks::ends_with_its_max_hold,
        locks::excludes_those_who_lock_without_a_coordinator,
        queues::are_first_come_first_served,
        queues::of_several_coordinators,
        queues::hand_on_when_a_stream_ends,
        queues::are_left_after_the_wait_or_by_a_cancel,
        queues::of_deadlocked_actors_move_on,
        modes::shared_and_semaphores,
        modes::limits_change_in_use,
        modes::permits_that_are_left,
        modes::several_names,
        modes::several_names_with_a_mode_each,
        modes::reentrant,
        operators::list_every_lock,
        operators::take_a_lock_away,
        operators::take_one_hold_away,
        operators::end_one_wait,
        operators::ask_for_a_release,
        operators::ask_a_leader_to_resign,
        ends::of_a_session_at_another_coordinator,
        ends::of_what_no_session_has,
        ends::of_a_session_that_was_resumed,
        ends::of_a_session_that_has_lost_what_it_resumed,
        ends::of_a_session_that_is_resuming,
        ends::of_a_leader_and_of_a_candidate,
        operators::check_tokens,
        operators::watch,
        elections::elect_one_after_the_other,
        elections::are_observed,
        resumes::of_a_hold,
        resumes::of_a_place,
        resumes::of_what_is_gone,
        resumes::of_a_bounded_hold,
        tokens::are_remembered_past_their_own_time,
        tokens::go_no_further_ahead_than_the_memory,
    );
    join_all(cases).await.len()
}
