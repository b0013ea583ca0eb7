//! Setup of one connection: TCP, TLS, and the [`handshake`](super::handshake), all within one time-out.

use std::{
    fmt, io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, ServerError,
    aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    address::Address,
    status::{DownCause, Fault},
    url::{Kind, RedisTarget, Tls},
};
use crate::{cause::certificate_alert, certificates::earliest};

/// Most requests that wait for the connection's writer before their senders wait. Each is a whole batch.
const PIPELINE_BUFFER: usize = 256;

/// Name of the step that encrypts a connection, for messages.
const HANDSHAKE: &str = "the TLS handshake";
/// Advice for a port without TLS.
const PLAIN: &str =
    "write redis:// (or redis+…://) in the store URL, or give the address of a port with TLS";

/// Id of one run of a server, as it reports it (`run_id`).
pub(super) type RunId = Arc<str>;

/// Receiver of Redis's push messages, in order, on the connection's own task: it must not block. If it has no room for one, the
/// connection is given up.
pub(super) type Listener = Arc<dyn Fn(PushInfo) -> Result<(), Full> + Send + Sync>;

/// Error of a listener without room for a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full;

/// Purpose of a connection.
#[derive(Clone)]
pub(super) enum Purpose {
    /// Commands, with these scripts loaded.
    Commands { scripts: Arc<[Arc<str>]> },
    /// Questions to a sentinel, or to any server, master or not.
    Questions,
    /// Listening to these channels, and patterns of channels, if any.
    Subscription {
        channels: Arc<[Vec<u8>]>,
        patterns: Arc<[Vec<u8>]>,
        listener: Listener,
    },
}

/// Connection that is ready for use.
pub(super) struct Dialled {
    pub(super) connection: MultiplexedConnection,
    /// Reads and writes for the connection. It ends when the connection breaks.
    pub(super) driver: AbortOnDropHandle<()>,
    /// The server's `maxmemory-policy`, if it was asked and answered.
    pub(super) memory_policy: Option<String>,
    /// The server's run, if it was asked and answered.
    pub(super) run: Option<RunId>,
    /// Time at which the first certificate of the server's chain expires; `None` without TLS.
    pub(super) certificate_expires: Option<SystemTime>,
    /// Cancelled when its listener had no room for a message.
    pub(super) overflow: CancellationToken,
}

/// Dials once. `attempt` chooses the first of the host's addresses to try, so that a silent one cannot use up the time of
/// every attempt.
pub(super) async fn dial(
    target: &RedisTarget,
    purpose: &Purpose,
    timeout: Duration,
    attempt: usize,
) -> Result<Dialled, Fault> {
    let dial = Dial {
        target,
        timeout,
        deadline: Instant::now() + timeout,
    };
    let stream = dial.within("the connection", dial.connect(attempt)).await?;
    match target.tls() {
        None => dial.open(stream, purpose).await,
        Some(tls) => {
            let stream = dial.within(HANDSHAKE, dial.encrypt(tls, stream)).await?;
            let certificate_expires = expires(&stream);
            let dialled = dial.open(stream, purpose).await?;
            Ok(Dialled {
                certificate_expires,
                ..dialled
            })
        }
    }
}

/// Returns when the first certificate of a server's chain expires, by a handshake alone; `None` without TLS.
pub(super) async fn shown_certificate(
    target: &RedisTarget,
    timeout: Duration,
) -> Result<Option<SystemTime>, Fault> {
    let Some(tls) = target.tls() else {
        return Ok(None);
    };
    let dial = Dial {
        target,
        timeout,
        deadline: Instant::now() + timeout,
    };
    let stream = dial.within("the connection", dial.connect(0)).await?;
    let stream = dial.within(HANDSHAKE, dial.encrypt(tls, stream)).await?;
    Ok(expires(&stream))
}

fn expires(stream: &TlsStream<TcpStream>) -> Option<SystemTime> {
    let (_, session) = stream.get_ref();
    earliest(session.peer_certificates()?)
}

/// One attempt.
pub(super) struct Dial<'a> {
    pub(super) target: &'a RedisTarget,
    timeout: Duration,
    deadline: Instant,
}

impl Dial<'_> {
    async fn connect(&self, attempt: usize) -> Result<TcpStream, Fault> {
        let unreachable = |error: &dyn fmt::Display| {
            let reason = format!(
                "cannot connect to {self}: {error}; check the address and that {} runs there",
                match self.target.kind() {
                    Kind::Server | Kind::Node => "Redis",
                    Kind::Sentinel => "a sentinel",
                }
            );
            Fault::new(DownCause::Unreachable, reason)
        };
        let Address { host, port } = self.target.address();
        let addresses = lookup_host((&**host, *port)).await;
        let mut addresses: Vec<_> = addresses.map_err(|error| unreachable(&error))?.collect();
        let first = attempt.checked_rem(addresses.len()).unwrap_or(0);
        addresses.rotate_left(first);
        let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            let connected = match TcpStream::connect(address).await {
                Ok(stream) => stream.set_nodelay(true).map(|()| stream),
                Err(error) => Err(error),
            };
            match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = error,
            }
        }
        Err(unreachable(&last_error))
    }

    async fn encrypt(&self, tls: &Tls, stream: TcpStream) -> Result<TlsStream<TcpStream>, Fault> {
        let connector = TlsConnector::from(tls.settings.current());
        let connected = connector.connect(tls.name.clone(), stream).await;
        connected.map_err(|error| {
            if let Some(alert) = certificate_alert(&error) {
                return self.certificate_wanted(alert);
            }
            let cause = error.get_ref().and_then(|error| error.downcast_ref());
            let reason = match cause {
                Some(rustls::Error::InvalidMessage(_)) => {
                    format!("TLS with {self} failed: what answers there does not speak TLS; {PLAIN}")
                }
                _ => format!(
                    "TLS with {self} failed: {error}; check that this port speaks TLS, that the certificate is for this \
                     host, the CA file (--store-ca), and whether it asks for a certificate (--store-cert)"
                ),
            };
            Fault::new(DownCause::Tls, reason)
        })
    }

    async fn open<S>(&self, stream: S, purpose: &Purpose) -> Result<Dialled, Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The time-outs of this module say what they interrupted; the built-in one would preempt them.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let overflow = CancellationToken::new();
        let (info, config) = match purpose {
            Purpose::Subscription { listener, .. } => {
                // RESP3, in which pings and messages can share a connection.
                let heard = listen(Arc::clone(listener), overflow.clone());
                let info = self.with_login(info.set_protocol(ProtocolVersion::RESP3));
                (info, config.set_push_sender(heard))
            }
            // The library gets no login: this module logs in itself, which names the reason of a refusal.
            _ => (info.set_protocol(ProtocolVersion::RESP2), config),
        };
        let (mut connection, driver) = self.hand_over(&info, stream, config).await?;
        let (mut memory_policy, mut run) = (None, None);
        if let Purpose::Subscription {
            channels, patterns, ..
        } = purpose
        {
            let subscribed = self.subscribe(&mut connection, channels, patterns);
            self.within("the subscription", subscribed).await?;
        } else {
            self.within("the login", self.log_in(&mut connection))
                .await?;
        }
        if let Purpose::Commands { scripts } = purpose {
            let set_up = self.set_up(&mut connection, scripts);
            (memory_policy, run) = self.within("the set-up", set_up).await?;
        }
        Ok(Dialled {
            connection,
            driver,
            memory_policy,
            run,
            certificate_expires: None,
            overflow,
        })
    }

    async fn subscribe(
        &self,
        connection: &mut MultiplexedConnection,
        channels: &[Vec<u8>],
        patterns: &[Vec<u8>],
    ) -> Result<(), Fault> {
        // Redis does not say which channel it refuses. One user's rules are for all of these alike.
        let first = |of: &[Vec<u8>]| {
            let first = of
                .first()
                .map(|it| String::from_utf8_lossy(it).into_owned());
            first.unwrap_or_default()
        };
        let subscribed = connection.subscribe(channels).await;
        subscribed
            .map_err(|error| self.failed(&format!("SUBSCRIBE {}", first(channels)), error))?;
        if patterns.is_empty() {
            return Ok(());
        }
        let subscribed = connection.psubscribe(patterns).await;
        subscribed.map_err(|error| self.failed(&format!("PSUBSCRIBE {}", first(patterns)), error))
    }

    fn with_login(&self, mut info: RedisConnectionInfo) -> RedisConnectionInfo {
        if let Some(login) = self.target.login() {
            info = info.set_password(&login.password);
            if let Some(user) = &login.user {
                info = info.set_username(user);
            }
        }
        info
    }

    async fn hand_over<S>(
        &self,
        info: &RedisConnectionInfo,
        stream: S,
        config: AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, AbortOnDropHandle<()>), Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.within("the login", async {
            let opened = MultiplexedConnection::new_with_config(info, stream, config).await;
            let (connection, driver) =
                opened.map_err(|error| match ServerError::try_from(error) {
                    Ok(error) => self.login_refused(&error),
                    Err(error) => self.lost(&error),
                })?;
            Ok((connection, AbortOnDropHandle::new(tokio::spawn(driver))))
        })
        .await
    }

    async fn within<T>(
        &self,
        step: &str,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        timeout_at(self.deadline, work).await.unwrap_or_else(|_| {
            let millis = self.timeout.as_millis();
            // A Redis without TLS waits for the end of a line, which may never come.
            let hint = match step {
                HANDSHAKE => format!("; if this port does not speak TLS, {PLAIN}"),
                _ => String::new(),
            };
            Err(Fault::new(
                DownCause::TimedOut,
                format!("{self} did not answer within {millis} ms, during {step}{hint}"),
            ))
        })
    }
}

impl fmt::Display for Dial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.target.label())
    }
}

/// Passes all messages to a listener, until it has no room.
fn listen(
    listener: Listener,
    overflow: CancellationToken,
) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync {
    move |push| {
        if !overflow.is_cancelled() && listener(push).is_err() {
            overflow.cancel();
        }
        Ok(())
    }
}
