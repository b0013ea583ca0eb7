//! Guards through a move, in every cell of the table that all libraries share.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use super::{life::draining, moves::opened, *};
use crate::{lease::LockState, proto::FromWire};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/clients/moves.json");

#[test]
fn every_cell_of_the_table() {
    let table: Value = serde_json::from_str(&fs::read_to_string(TABLE).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for row in table["rows"].as_array().unwrap() {
        let cell: Vec<&str> = row
            .as_array()
            .unwrap()
            .iter()
            .flat_map(Value::as_str)
            .collect();
        let [client, on, arrives, without, with_grace] = cell[..] else {
            panic!("{row}");
        };
        for (grace, expected) in [(0, without), (7_000, with_grace)] {
            let mut moving = Move::new(grace, client);
            moving.hear(on, arrives, &table["codes"]);
            let state = moving.session.state(50);
            if state != state_of(expected) {
                wrong.push(format!("{row} with a grace of {grace}: {state:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

fn state_of(cell: &str) -> LockState {
    match cell {
        "held" => LockState::Held,
        "suspended" => LockState::Suspended,
        "SESSION_ENDED" => LockState::Lost(LostReason::SessionEnded),
        reason => LockState::Lost(LostReason::from_wire(i32::from(wire_reason(reason)))),
    }
}

fn wire_reason(name: &str) -> v1::LostReason {
    v1::LostReason::from_str_name(&format!("LOST_REASON_{name}")).unwrap()
}

/// A session in a state of the table.
struct Move {
    session: Session,
    streams: BTreeMap<&'static str, u64>,
    ids: BTreeMap<&'static str, Vec<u8>>,
}

impl Move {
    fn new(grace: u64, client: &str) -> Self {
        let session = Session::holding(grace);
        let mut this = Self {
            streams: [("old", session.stream)].into(),
            ids: [("confirmed", vec![1]), ("unknown", vec![2])].into(),
            session,
        };
        if client == "open" {
            return this;
        }
        this.session.message(10, 0, draining());
        this.ask(20);
        if client == "asked" {
            return this;
        }
        this.session.machine.attempt_failed(at(30), Fate::Kept);
        this.ids.insert("tried", this.ids["next"].clone());
        let failure = match client {
            "deaf" => return this,
            "again" => {
                this.ask(40);
                return this;
            }
            "stopped" => None,
            "broken" => Some(broken()),
            _ => panic!("{client}"),
        };
        let (machine, old) = (&mut this.session.machine, this.streams["old"]);
        machine.stream_ended_by(at(40), old, failure.as_ref());
        this
    }

    fn ask(&mut self, now: u64) {
        let next = self.session.connect(now).unwrap().remove(0).2;
        self.streams.insert("next", self.session.stream);
        self.ids.insert("next", next);
    }

    /// Has a stream say this.
    fn hear(&mut self, on: &str, arrives: &str, codes: &Value) {
        let failure = |reason: &str| v1::SessionFailure {
            code: codes[reason].as_i64().unwrap() as i32,
            reason: reason.into(),
            ..Default::default()
        };
        let words: Vec<&str> = arrives.split(' ').collect();
        match words[..] {
            ["lost", reason, id] => {
                let locks = vec![lost_lock(1, self.ids[id].clone(), wire_reason(reason))];
                self.say(on, Response::Lost(v1::SessionLost { locks }));
            }
            ["refused", reason, id] => {
                let refusal = opened_without(self.ids[id].clone(), wire_reason(reason));
                self.say(on, refusal);
            }
            ["opened"] => self.say(on, opened(&[&self.ids["tried"]])),
            ["error", reason] => self.say(on, Response::Error(failure(reason))),
            ["closed"] => self.say(on, Response::Closed(v1::SessionClosed {})),
            ["end", reason] => self.end(on, Some(Failure::from_session(failure(reason)))),
            ["plain", "end"] => self.end(on, None),
            ["break"] => self.end(on, Some(broken())),
            _ => panic!("{arrives}"),
        }
    }

    fn say(&mut self, on: &str, response: Response) {
        if on == "overdue" {
            let message = v1::SessionResponse {
                request_id: 1,
                response: Some(response),
            };
            self.session.machine.overdue_message(at(50), message);
        } else {
            self.session.say(50, self.streams[on], 1, response);
        }
    }

    /// Ends a stream, plainly or with this failure.
    fn end(&mut self, on: &str, failure: Option<Failure>) {
        let machine = &mut self.session.machine;
        if on == "old" {
            machine.stream_ended_by(at(50), self.streams[on], failure.as_ref());
            return;
        }
        let fate = Fate::of(&ConnectError::broke("http://test".into(), failure));
        match on {
            "next" => machine.attempt_failed(at(50), fate),
            "overdue" => machine.overdue_ended(at(50), fate),
            _ => panic!("{on}"),
        }
    }
}

/// Returns what tonic says of a stream that ends without its trailers.
fn broken() -> Failure {
    Failure::from_status(tonic::Status::unknown("no status at the stream's end"))
}
