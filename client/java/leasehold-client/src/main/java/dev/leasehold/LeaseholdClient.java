package dev.leasehold;

import com.google.protobuf.ByteString;
import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.ClientName;
import dev.leasehold.internal.Credentials;
import dev.leasehold.internal.Endpoint;
import dev.leasehold.internal.Measures;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.Settings;
import dev.leasehold.internal.Tasks;
import dev.leasehold.internal.Threads;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.SessionOpen;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * Client of the coordinators of one service. It has one session, made on first use and shared by everything that is asked of the client
 * itself, and as many more as {@link #newSession} makes. All methods may be called from any thread. Make one for a program.
 */
public final class LeaseholdClient extends Entry implements AutoCloseable {
    /** Version of this library, in step with that of the coordinator. */
    public static final String VERSION = "0.1.0";

    private static final int OWNER_ID = 16;

    private final Builder options;
    private final Settings settings;
    private final Object lock = new Object();
    private final Set<Session> sessions = new HashSet<>();
    /** The client's own session; null before its first use. */
    private Session shared;

    private boolean isClosed;

    private LeaseholdClient(Builder options, Settings settings) {
        super(new Calls(settings));
        this.options = options;
        this.settings = settings;
    }

    /**
     * Returns the builder of a client of the coordinators at these URLs, separated by commas. A name may stand for several coordinators: each
     * address that it resolves to is one. A URL without a scheme is an http URL, and the port is 7420 unless it names one.
     */
    public static Builder builder(String endpoints) {
        return new Builder(endpoints);
    }

    /**
     * Makes a client with default settings, and opens its session; see {@link Builder#connect}.
     *
     * @throws SessionOpenException if no coordinator opens it: each is attempted once
     * @throws InterruptedException if the thread is interrupted before that
     */
    public static LeaseholdClient connect(String endpoints) throws InterruptedException {
        return builder(endpoints).connect();
    }

    /** Returns the client's own session, which it makes if it was not used before; fails with {@link ErrorKind#CLOSED} if it is closed. */
    public Session session() {
        synchronized (lock) {
            requireOpen();
            if (shared == null || shared.hasEnded() || shared.isClosing()) {
                sessions.removeIf(Session::hasEnded);
                shared = make(false);
            }
            return shared;
        }
    }

    private void requireOpen() {
        if (isClosed) {
            throw new LeaseholdException(ErrorKind.CLOSED, "the client was closed", null);
        }
    }

    private Session make(boolean mustOpen) {
        Session made = new Session(new SessionDriver(settings, options.open(), mustOpen), calls);
        sessions.add(made);
        return made;
    }

    /**
     * Opens a further session, on a connection of its own. A session that has been open is made anew by itself. Close it when it is not needed
     * any more.
     *
     * @throws SessionOpenException if no coordinator opens it: each is attempted once
     * @throws InterruptedException if the thread is interrupted before that
     */
    public Session newSession() throws InterruptedException {
        Session made;
        synchronized (lock) {
            requireOpen();
            sessions.removeIf(Session::hasEnded);
            made = make(true);
        }
        return opened(made);
    }

    private static Session opened(Session made) throws InterruptedException {
        try {
            made.awaitOpen();
            return made;
        } catch (Throwable e) {
            made.beginClose(0);
            throw e;
        }
    }

    /**
     * Requests a lock that no session holds, for callers whose lock has to outlive them; see {@link DetachedRequest}. No session is opened for
     * it.
     */
    public DetachedRequest detachedLock(LockSpec spec) {
        return new DetachedRequest(calls, spec).clientName(options.clientName());
    }

    /** Requests an exclusive lock that no session holds; see {@link #detachedLock(LockSpec)}. */
    public DetachedRequest detachedLock(String name) {
        return detachedLock(LockSpec.exclusive(name));
    }

    /**
     * Takes up a detached lock by the owner id that its grant gave, perhaps to another process. Asks nobody: the lock counts as not held before
     * {@link DetachedLock#renew()} has found that it is. The owner id alone says which hold it is; the token is only passed on. Renewals are
     * for the coordinator's default TTL, unless they name another.
     */
    public DetachedLock attachDetachedLock(String name, long token, byte[] ownerId) {
        return attach(name, token, ownerId, null);
    }

    /** Takes up a detached lock as {@link #attachDetachedLock(String, long, byte[])} does, with the TTL for which renewals are. */
    public DetachedLock attachDetachedLock(String name, long token, byte[] ownerId, Duration ttl) {
        long nanos = Moments.nanos(Checks.given(ttl, "ttl"));
        setting(Checks.positive(nanos, "ttl"));
        return attach(name, token, ownerId, Moments.wire(nanos));
    }

    private DetachedLock attach(String name, long token, byte[] ownerId, com.google.protobuf.Duration ttl) {
        setting(Checks.name(Checks.given(name, "name")));
        setting(Checks.token(token, "token"));
        if (Checks.given(ownerId, "ownerId").length != OWNER_ID) {
            throw new IllegalArgumentException("an owner id has 16 bytes");
        }
        return new DetachedLock(calls, name, token, ByteString.copyFrom(ownerId), 0, ttl, BootClock.now());
    }

    /** Fails if a check found a setting wrong. */
    static void setting(Failure wrong) {
        if (wrong != null) {
            throw new IllegalArgumentException(wrong.message());
        }
    }

    /** Returns the operator's view of locks and sessions. No session is opened for it. */
    public Admin admin() {
        return new Admin(calls);
    }

    @Override
    SessionDriver driver() {
        return session().driver();
    }

    @Override
    Candidacies candidacies() {
        return session().candidacies();
    }

    /**
     * Closes all sessions, as {@link Session#close()} does, detached locks and the client's connections. The client can't be used after that.
     * Another close, at the same time or later, waits for the first.
     */
    @Override
    public void close() {
        close(Duration.ofNanos(settings.closeTimeout()));
    }

    /** Closes as {@link #close()} does, and waits for work under locks for no longer than this; zero means not to wait. */
    public void close(Duration timeout) {
        long nanos = Moments.nanos(Checks.given(timeout, "timeout"));
        setting(Checks.time(nanos, "timeout"));
        List<Session> open;
        synchronized (lock) {
            isClosed = true;
            open = List.copyOf(sessions);
        }
        List<CompletableFuture<Void>> closing = new ArrayList<>(open.stream().map(session -> session.beginClose(nanos)).toList());
        closing.add(calls.refuse(nanos));
        closing.forEach(Waits::uninterruptibly);
        calls.close();
    }

    @Override
    public String toString() {
        return "LeaseholdClient[" + options.endpoints + "]";
    }

    /** Settings of a client. */
    public static final class Builder {
        private final String endpoints;
        private String clientName;
        /** Null for the coordinator's. */
        private Duration ttl;
        private Duration grace = Duration.ZERO;
        private final Map<String, String> metadata = new HashMap<>();
        /** Null for no bound. */
        private Duration wait;
        private Duration closeTimeout = Duration.ofSeconds(10);
        private Duration connectTimeout = Duration.ofSeconds(5);
        private Duration backoffMin = Duration.ofMillis(50);
        private Duration backoffMax = Duration.ofSeconds(2);
        private Path ca;
        private Path certificate;
        private Path key;
        private String serverName;
        private String token;
        private Path tokenFile;
        private boolean isPlaintextAllowed;
        private Executor executor = Threads.perTask();
        private Consumer<Map<String, String>> propagation;
        private final List<ClientMetrics> metrics = new ArrayList<>();

        private Builder(String endpoints) {
            this.endpoints = Checks.given(endpoints, "endpoints");
        }

        /**
         * Sets the name that operators see: at most 256 bytes without control characters. Default: the program, host and process, such as {@code
         * billing@web-1/4711}.
         */
        public Builder clientName(String name) {
            setting(Checks.text(Checks.given(name, "clientName"), "clientName"));
            clientName = name;
            return this;
        }

        /**
         * Sets the time for which a lock outlives the loss of contact: 1 s to 1 h unless the coordinator is configured otherwise. A shorter TTL
         * frees the locks of a dead machine sooner; a longer one survives longer interruptions. Default: the coordinator's, 10 s.
         */
        public Builder ttl(Duration time) {
            ttl = positive(time, "ttl");
            return this;
        }

        /**
         * Sets the time for which locks are kept when their stream breaks, so that the session can resume them on another one: zero to the TTL.
         * Default: zero.
         *
         * <p>Without a grace a lock is lost at the moment at which its stream breaks, and the coordinator hands it on as soon as it notices.
         * With a grace, the lock is suspended: not held, but nobody else can have it, until the session has resumed it, here or at another
         * coordinator, or the grace or the lock's validity has passed. The price is that the locks of a process that has died stay taken for as
         * long.
         *
         * <p>A coordinator that goes away on purpose, or that falls silent, needs no grace: the session moves to another one before the stream
         * breaks, and its locks are held throughout.
         */
        public Builder grace(Duration time) {
            grace = notNegative(time, "grace");
            return this;
        }

        /**
         * Sets the longest wait of acquires that give none: at most 24 h; zero means not to wait. Campaigns and detached locks have their own.
         * Default: as long as it takes.
         */
        public Builder waitAtMost(Duration time) {
            setting(Checks.longestWait(Moments.nanos(Checks.given(time, "wait"))));
            wait = time;
            return this;
        }

        /**
         * Sets how long a close waits for work under locks, once it has told that to stop; zero means not to wait. Default: 10 s. See {@link
         * LeaseholdClient#close()}.
         */
        public Builder closeTimeout(Duration timeout) {
            closeTimeout = notNegative(timeout, "closeTimeout");
            return this;
        }

        private static Duration positive(Duration time, String name) {
            setting(Checks.positive(Moments.nanos(Checks.given(time, name)), name));
            return time;
        }

        private static Duration notNegative(Duration time, String name) {
            setting(Checks.time(Moments.nanos(Checks.given(time, name)), name));
            return time;
        }

        /**
         * Adds free text that operators see in the list of sessions: at most 16 entries, keys of 1 to 64 bytes, values of at most 256. Default:
         * none.
         */
        public Builder metadata(String name, String value) {
            Map<String, String> changed = new HashMap<>(metadata);
            changed.put(Checks.given(name, "name"), Checks.given(value, "value"));
            setting(Checks.metadata(changed));
            metadata.put(name, value);
            return this;
        }

        /**
         * Sets how long an attempt to connect may take, and as long again until the session is open; less if a hold would run out meanwhile.
         * Default: 5 s.
         */
        public Builder connectTimeout(Duration timeout) {
            connectTimeout = positive(timeout, "connectTimeout");
            return this;
        }

        /**
         * Sets the pauses between attempts to reconnect, after each round of all coordinators: from about least, doubling, with random parts, to
         * at most most. Default: 50 ms to 2 s.
         */
        public Builder backoff(Duration least, Duration most) {
            positive(least, "backoff.least");
            positive(most, "backoff.most");
            if (most.compareTo(least) < 0) {
                throw new IllegalArgumentException("backoff.most: must be no less than backoff.least");
            }
            backoffMin = least;
            backoffMax = most;
            return this;
        }

        /**
         * Sets a PEM file with the certificates of the CAs that the client trusts, for https endpoints. The client reads a changed file again
         * for each new connection. Default: the CAs that Java trusts.
         */
        public Builder ca(Path file) {
            ca = Checks.given(file, "ca");
            return this;
        }

        /**
         * Sets PEM files with the certificate that the client shows to coordinators (with any intermediate certificates), and its private key in
         * PKCS #8, for https endpoints. The client reads changed files again: new connections use the new certificate, and sessions move to such
         * a connection, with all that they hold. Default: none.
         */
        public Builder certificate(Path certificateFile, Path keyFile) {
            certificate = Checks.given(certificateFile, "certificate");
            key = Checks.given(keyFile, "key");
            return this;
        }

        /**
         * Sets the name that must be in the coordinators' certificates, if it differs from that of their URLs. Default: the host of the endpoint,
         * at whatever address.
         */
        public Builder serverName(String name) {
            serverName = Checks.given(name, "serverName");
            return this;
        }

        /**
         * Sets the bearer token that the client shows with every call and session. Over http the client sends it to this machine only, unless
         * {@link #allowPlaintextToken} allows more. Default: none.
         */
        public Builder token(String bearer) {
            token = Checks.given(bearer, "token");
            return this;
        }

        /**
         * Sets a file with the bearer token in its only line, in place of {@link #token}. The client reads a changed file again, so that a token
         * can be replaced before it expires: calls use the new one, and sessions move to a connection that does, with all that they hold. If the
         * file can't be read then, the last token stays in use.
         */
        public Builder tokenFile(Path file) {
            tokenFile = Checks.given(file, "tokenFile");
            return this;
        }

        /**
         * Sends the bearer token over http to other machines too, where anybody on the way can read and use it. Only for networks that encrypt by
         * other means, such as a mesh.
         */
        public Builder allowPlaintextToken() {
            isPlaintextAllowed = true;
            return this;
        }

        /**
         * Sets the executor of callbacks and of what depends on the futures of this library. Default: a thread for each task, a virtual one where
         * there are.
         */
        public Builder executor(Executor tasks) {
            executor = Checks.given(tasks, "executor");
            return this;
        }

        /**
         * Sets a hook that adds the trace context of the calling thread to a request. It must be quick. Requests on a session take {@code
         * traceparent} from it; single calls send everything as metadata. For OpenTelemetry, {@link
         * dev.leasehold.opentelemetry.LeaseholdOpenTelemetry} sets it.
         */
        public Builder propagation(Consumer<Map<String, String>> inject) {
            propagation = Checks.given(inject, "propagation");
            return this;
        }

        /** Adds a receiver of metrics. Default: none. */
        public Builder metrics(ClientMetrics receiver) {
            metrics.add(Checks.given(receiver, "metrics"));
            return this;
        }

        private String clientName() {
            return clientName == null ? ClientName.byDefault() : clientName;
        }

        private SessionOpen open() {
            SessionOpen.Builder open = SessionOpen.newBuilder().setClientName(clientName()).putAllMetadata(metadata);
            if (ttl != null) {
                open.setTtl(Moments.wire(Moments.nanos(ttl)));
            }
            if (grace.compareTo(Duration.ZERO) > 0) {
                open.setDisconnectGrace(Moments.wire(Moments.nanos(grace)));
            }
            return open.build();
        }

        /**
         * Makes the client. It connects to nothing: the client's session is made in the background when it is first used, and again whenever it
         * ends.
         *
         * @throws IllegalArgumentException if the URLs or the settings can't be used
         */
        public LeaseholdClient build() {
            List<Endpoint> coordinators = Endpoint.parse(endpoints);
            Credentials.Options shown = new Credentials.Options(ca, certificate, key, serverName, token, tokenFile, isPlaintextAllowed);
            Settings settings = new Settings(
                    coordinators,
                    new Credentials(shown, coordinators),
                    Moments.nanos(connectTimeout),
                    Moments.nanos(backoffMin),
                    Moments.nanos(backoffMax),
                    wait == null ? Moments.NEVER : Moments.nanos(wait),
                    Moments.nanos(closeTimeout),
                    new Tasks(executor),
                    propagation,
                    new Measures(metrics));
            return new LeaseholdClient(this, settings);
        }

        /**
         * Makes the client, and opens its session.
         *
         * @throws IllegalArgumentException if the URLs or the settings can't be used
         * @throws SessionOpenException if no coordinator opens it: each is attempted once
         * @throws InterruptedException if the thread is interrupted before that
         */
        public LeaseholdClient connect() throws InterruptedException {
            LeaseholdClient client = build();
            try {
                Session own;
                synchronized (client.lock) {
                    own = client.make(true);
                    client.shared = own;
                }
                opened(own);
                return client;
            } catch (Throwable e) {
                client.close();
                throw e;
            }
        }
    }
}
