//! Registers that the locks protect: a server in the harness, which no fault reaches.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use leasehold_torture::history::History;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::record::Record;

/// The registers, one for each lock. Each refuses a token that is older than one that it has accepted.
pub(crate) struct Registers {
    address: SocketAddr,
}

struct State {
    newest: HashMap<String, i64>,
    sequence: u64,
}

impl Registers {
    pub(crate) async fn start(at: Ipv4Addr, record: Arc<Record>) -> Self {
        let listener = TcpListener::bind((at, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let history = Arc::new(History::create(&record.path("registers")));
        let state = Arc::new(Mutex::new(State {
            newest: HashMap::new(),
            sequence: 0,
        }));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&state), Arc::clone(&history)));
            }
        });
        Self { address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves writes, lines `CLIENT LOCK TOKEN`, until the client is gone.
async fn serve(stream: TcpStream, state: Arc<Mutex<State>>, history: Arc<History>) {
    // A client that is killed in between is no concern of the registers.
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        match stream.read_line(&mut line).await {
            Ok(read) if read > 0 && line.ends_with('\n') => {}
            _ => return,
        }
        let accepted = write(&line, &state, &history);
        let answer: &[u8] = if accepted {
            b"accepted\n"
        } else {
            b"refused\n"
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// Carries out a write and records it, before anybody learns of it.
fn write(line: &str, state: &Mutex<State>, history: &History) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [client, lock, token] = words[..] else {
        panic!("a client wrote {line:?}");
    };
    let token: i64 = token.parse().expect("a token is a number");
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.sequence += 1;
    let sequence = state.sequence;
    let newest = state.newest.entry(lock.to_owned()).or_insert(token);
    let accepted = token >= *newest;
    if accepted {
        *newest = token;
    }
    let fields = json!({
        "client": client,
        "lock": lock,
        "token": token,
        "accepted": accepted,
        "sequence": sequence,
    });
    history.line("write", fields);
    accepted
}
