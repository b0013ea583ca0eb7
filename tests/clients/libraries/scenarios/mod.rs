//! Scenarios.

mod bodies;
mod clocks;
mod credentials;
mod deadlines;
mod losses;
mod moves;
mod observers;
mod orders;
mod refusals;
mod resumes;
mod scripts;
mod sessions;
mod waits;

use futures_util::future::LocalBoxFuture;

pub(crate) use self::clocks::can_make_namespace;

use crate::{
    mutant::{Means, Mutant},
    world::World,
};

/// Back end of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BackEnd {
    Real,
    Scripted,
}

impl BackEnd {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Scripted => "scripted",
        }
    }
}

/// A scenario. It passes, or says what the driver did wrong; it panics if the back end fails.
pub(crate) struct Scenario {
    pub(crate) number: u8,
    pub(crate) title: &'static str,
    pub(crate) back_end: BackEnd,
    /// What the driver must be able to do, of what not every driver can.
    pub(crate) needs: &'static [&'static str],
    pub(crate) run: fn(World) -> LocalBoxFuture<'static, anyhow::Result<()>>,
    pub(crate) mutant: Mutant,
}

impl Scenario {
    /// Returns its name in tests.
    pub(crate) fn name(&self) -> String {
        let words = |letter: char| {
            if letter.is_alphanumeric() {
                letter
            } else {
                '_'
            }
        };
        let title: String = self.title.chars().map(words).collect();
        format!("{:02}_{title}", self.number)
    }
}

/// Need of a scenario that starts its driver in a time namespace, which not every machine can make.
pub(crate) const TIME_NAMESPACE: &str = "time namespace";

/// Makes scenarios: number, title, back end, needs; the module and name of the function; the mutant's wrong and verdict, and its means.
macro_rules! scenarios {
    ($($number:literal $title:literal $back:ident [$($need:expr),*] $file:ident::$run:ident
        mutant $wrong:literal => $verdict:literal $means:ident($make:expr);)*) => {
        /// All scenarios, by number.
        pub(crate) static SCENARIOS: &[Scenario] = &[$(Scenario {
            number: $number,
            title: $title,
            back_end: BackEnd::$back,
            needs: &[$($need),*],
            run: |world| Box::pin($file::$run(world)),
            mutant: Mutant { wrong: $wrong, verdict: $verdict, means: Means::$means($make) },
        },)*];
    };
}

scenarios! {
    1 "hold and renew past three TTLs" Real [] losses::renews
        mutant "the hold ends after its first TTL" => "not held throughout"
        Lines(losses::forgets_to_renew);
    2 "coordinator stopped" Real [] losses::coordinator_stops
        mutant "the check reads a flag that a late timer sets" => "held after somebody else had it"
        Lines(losses::tells_late);
    3 "coordinator killed, without grace and with" Real ["suspended_event"] losses::coordinator_dies
        mutant "a suspended hold counts as held" => "not suspended with a grace"
        Lines(losses::acts_while_suspended);
    4 "client stopped past its TTL" Real [] losses::driver_stops
        mutant "the first answer is that of a flag" => "held after it was stopped"
        Lines(losses::reads_a_flag);
    5 "clock jump" Real ["skew_clock"] clocks::jumps
        mutant "suspended time does not count" => "held after a jump"
        Lines(clocks::stands_still);
    6 "clock source" Real ["clock", TIME_NAMESPACE] clocks::source
        mutant "deadlines are counted on another clock" => "another clock"
        Lines(clocks::reads_another_clock);
    7 "blocked event loop" Real ["block"] losses::loop_is_blocked
        mutant "the check waits for a timer" => "held after a block"
        Lines(losses::checks_by_timer);
    8 "acknowledgements only lengthen" Scripted [] deadlines::only_lengthen
        mutant "an acknowledgement that nobody waits for is dropped" => "before its deadline"
        Wire(deadlines::ignores_acks);
    9 "slow acknowledgements" Scripted [] deadlines::slow_acks
        mutant "deadlines count from the receipt" => "deadline"
        Wire(deadlines::counts_from_receipt);
    10 "cancel before the grant" Real ["cancel"] waits::cancelled
        mutant "a cancelled acquire waits on" => "the cancelled acquire waits on"
        Lines(waits::cancels_nothing);
    11 "cancel that crosses the grant" Scripted ["cancel"] orders::cancel_crosses
        mutant "the grant is kept" => "no release came"
        Wire(orders::never_releases);
    12 "force release" Real [] losses::force_release
        mutant "the loss is told twice" => "told 2 times"
        Lines(losses::tells_twice);
    13 "drain, and a restart of the only coordinator" Real [] waits::drain
        mutant "all endpoints but the first are unknown" => "did not move"
        Lines(waits::knows_one_endpoint);
    14 "resume whose answer is lost" Scripted [] resumes::unanswered
        mutant "tried owner ids are left out" => "a tried owner id is left out"
        Wire(resumes::forgets_attempts);
    15 "large resume, refused in part" Scripted [] resumes::many
        mutant "refusals are overlooked" => "did not come"
        Wire(resumes::overlooks_refusals);
    16 "words of the old stream" Scripted [] resumes::old_stream
        mutant "the old stream's word counts after the resume" => "lost by the old stream"
        Wire(resumes::believes_old_streams);
    17 "place in a queue resumed as a hold" Scripted [] resumes::place
        mutant "a hold is taken for a place" => "the reply to acquire did not come"
        Wire(resumes::waits_on);
    18 "flood of messages" Scripted [] orders::flood
        mutant "the client stops reading" => "lost in a flood"
        Wire(orders::stops_reading);
    19 "ends of a stream" Scripted [] orders::ends
        mutant "the client leaves without a word" => "close came"
        Wire(orders::leaves_silently);
    20 "answers out of order" Scripted [] orders::out_of_order
        mutant "two requests have one id" => "have the id"
        Wire(orders::reuses_ids);
    21 "unknown messages, fields and numbers" Scripted [] orders::unknown
        mutant "an unknown reason ends the stream" => "lost by an unknown message"
        Wire(orders::knows_all_reasons);
    22 "election handed over" Real ["cancel_body", "cleanup"] bodies::handed_over
        mutant "the lock is released before the body has ended" => "before the body had ended"
        Lines(bodies::resigns_early);
    23 "observers never go back" Scripted [] observers::never_back
        mutant "an older term is shown" => "the observer goes back"
        Lines(observers::goes_back);
    24 "deadlock, and reentrant holds" Real [] waits::deadlock
        mutant "requests have no actor" => "the reply to acquire did not come"
        Lines(waits::forgets_actors);
    25 "limits of semaphores" Real [] waits::limits
        mutant "no permits are taken for one" => "and not refused with"
        Lines(waits::takes_zero_for_one);
    26 "one of several locks lost" Real [] bodies::one_of_several
        mutant "the work goes on" => "did not come"
        Lines(bodies::works_on);
    27 "credentials replaced and expired" Real ["tls", "suspended_event"] credentials::replaced
        mutant "credentials are read once" => "does not move to show newer credentials"
        Lines(credentials::reads_once);
    28 "pauses between attempts" Scripted ["backoff"] refusals::pauses
        mutant "pauses do not grow" => "its pauses"
        Lines(refusals::hammers);
    29 "fork" Real ["fork"] clocks::fork
        mutant "the child holds the lock too" => "the child of a fork holds"
        Lines(clocks::holds_twice);
    30 "work fails and its lock is lost" Real [] bodies::body_fails
        mutant "the loss hides the work's error" => "hides the work's own error"
        Lines(bodies::hides_own_errors);
    31 "end of an unanswered move" Scripted [] moves::attempt_ends
        mutant "the ends of streams that did not open in time are overlooked" => "after the end of an attempt"
        Wire(moves::overlooks_ends);
    32 "words during an unanswered move" Scripted [] moves::words
        mutant "the words of streams that the client has left are overlooked" => "after the old stream's word"
        Wire(moves::overlooks_losses);
    33 "store stopped past the TTL" Real [] losses::store_stops
        mutant "the check reads a flag that a late timer sets" => "after its deadline"
        Lines(losses::tells_late);
    34 "spread over coordinators in a rolling restart" Real [] sessions::spread
        mutant "one endpoint of three is unknown" => "got no session of"
        Lines(sessions::knows_two_endpoints);
    35 "full coordinators" Real [] sessions::full
        mutant "all endpoints but the first are unknown" => "connect failed"
        Lines(waits::knows_one_endpoint);
    36 "default name" Real [] sessions::named
        mutant "a client has no name" => "its name is"
        Lines(sessions::is_nobody);
    37 "silence within the TTL" Real [] losses::is_silent
        mutant "the TTL is cut to 10 s" => "not held in the silence"
        Lines(losses::shortens_its_ttl);
    38 "spread by age" Real [] sessions::grows_old
        mutant "all endpoints but the first are unknown" => "not all sessions moved"
        Lines(waits::knows_one_endpoint);
    39 "asked to move" Real [] sessions::asked_to_move
        mutant "a value is empty" => "did not move"
        Lines(sessions::values_are_empty);
}
