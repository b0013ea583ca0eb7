package dev.leasehold.conformance;

import dev.leasehold.AcquireException;
import dev.leasehold.Hold;
import dev.leasehold.HoldState;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockRequest;
import dev.leasehold.SessionInfo;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.logging.LogManager;

/**
 * Client of the torture run: takes locks in several threads, writes to their registers, and records what it believes. It takes the
 * arguments of the Rust client torture-client and draws cycles of the same kinds; {@code tests/checker/HISTORY.md} describes what it writes:
 *
 * <pre>Torture NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE [CREDENTIALS]</pre>
 *
 * <p>A thread writes to the register of a lock without a look at its hold: fencing has to stop what comes late.
 */
public final class Torture {
    /** Longest time between two looks at a hold, in milliseconds. */
    private static final long LOOK = 40;
    /** Pause after an error, in milliseconds. */
    private static final long PAUSE = 200;
    /** Longest time for closing at the end, in seconds. What the client still has then, it loses with the process. */
    private static final long ENDING = 10;
    /** A deadline that moved by less is not recorded, in microseconds. */
    private static final long MOVED = 10_000;

    private final LeaseholdClient client;
    private final String name;
    private final History history;
    private final String registers;
    /** Whether each coordinator has a queue of its own. */
    private final boolean isQuorum;
    /** Whether sessions move to other coordinators at any time, to show newer credentials. */
    private final boolean moves;

    private final CountDownLatch stop = new CountDownLatch(1);
    private final AtomicLong asks = new AtomicLong();

    private Torture(LeaseholdClient client, String name, History history, String registers, boolean isQuorum, boolean moves) {
        this.client = client;
        this.name = name;
        this.history = history;
        this.registers = registers;
        this.isQuorum = isQuorum;
        this.moves = moves;
    }

    /** Runs the client until its standard input ends. */
    public static void main(String[] arguments) throws Exception {
        // Losses are what the run is about: the history has them.
        LogManager.getLogManager().reset();
        String name = arguments[0];
        Path path = Path.of(arguments[3]);
        History history = new History(path);
        History.watchStalls(name, path);
        LeaseholdClient.Builder builder = LeaseholdClient.builder(arguments[1])
                .clientName(name)
                .ttl(Duration.ofMillis(Long.parseLong(arguments[5])))
                .grace(Duration.ofMillis(Long.parseLong(arguments[6])));
        boolean isShown = arguments.length > 9;
        if (isShown) {
            show(builder, Path.of(arguments[9]));
        }
        Torture torture =
                new Torture(builder.build(), name, history, arguments[2], arguments[8].equals("quorum"), isShown);
        torture.run(Long.parseUnsignedLong(arguments[4]), Integer.parseInt(arguments[7]));
    }

    /** Shows the credentials of a folder, whose files the harness replaces. */
    private static void show(LeaseholdClient.Builder builder, Path folder) {
        builder.ca(folder.resolve("ca.pem"))
                .certificate(folder.resolve("client.pem"), folder.resolve("client.key"))
                .serverName("localhost");
        Path token = folder.resolve("token");
        if (Files.exists(token)) {
            builder.tokenFile(token);
        }
    }

    private void run(long seed, int tasks) throws IOException, InterruptedException {
        CountDownLatch running = new CountDownLatch(tasks);
        for (int task = 0; task < tasks; task++) {
            SplittableRandom random = new SplittableRandom(seed + task);
            new Thread(() -> {
                try {
                    live(random);
                } catch (InterruptedException | RuntimeException e) {
                    // A client with a part missing proves nothing.
                    e.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
                running.countDown();
            }).start();
        }
        // Nothing is ever written.
        System.in.readAllBytes();
        stop.countDown();
        running.await();
        Thread closing = new Thread(client::close);
        closing.setDaemon(true);
        closing.start();
        closing.join(Duration.ofSeconds(ENDING).toMillis());
        history.line("finished", "client", name);
        Runtime.getRuntime().halt(0);
    }

    private void live(SplittableRandom random) throws InterruptedException {
        Registers writes = new Registers(registers, name);
        Cycle cycle = Cycle.first(name);
        while (true) {
            run(cycle, writes);
            if (stop.await(cycle.pause(), TimeUnit.MILLISECONDS)) {
                return;
            }
            cycle = Cycle.draw(random, isQuorum);
        }
    }

    private String queue() {
        if (!isQuorum) {
            return "";
        }
        String coordinator = client.session().info().map(SessionInfo::coordinator).orElse("");
        // Where it may join another queue meanwhile, it is in line with nobody.
        return coordinator.isEmpty() || moves ? coordinator + " " + History.now() : coordinator;
    }

    private void run(Cycle cycle, Registers writes) throws InterruptedException {
        History.Ask ask = history.ask(name, asks.incrementAndGet());
        Map<String, Object> asked = cycle.fields();
        asked.put("queue", queue());
        ask.line("asked", asked);
        String outcome;
        String why = "";
        try {
            LockRequest request = cycle.request(client);
            Hold hold = cycle.giveUp() == 0
                    ? request.acquire()
                    : request.acquireAsync().orTimeout(cycle.giveUp(), TimeUnit.MILLISECONDS).get();
            hold(ask, cycle, hold, writes);
            return;
        } catch (AcquireException e) {
            outcome = outcome(e);
            why = e.getMessage();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof AcquireException failed) {
                outcome = outcome(failed);
                why = failed.getMessage();
            } else if (e.getCause() instanceof TimeoutException) {
                outcome = "cancelled";
            } else {
                throw new IllegalStateException(e);
            }
        }
        ask.line("ended", "outcome", outcome, "why", why);
        if (outcome.equals("refused") || outcome.equals("failed")) {
            stop.await(PAUSE, TimeUnit.MILLISECONDS);
        }
    }

    private static String outcome(AcquireException failed) {
        return switch (failed.kind()) {
            case TIMED_OUT -> "timed_out";
            case BUSY -> "busy";
            case UNAUTHENTICATED, PERMISSION_DENIED -> "refused";
            default -> "failed";
        };
    }

    /** Holds a lock for the cycle's time or until it is lost, writes to its register, and records all that the hold says. */
    private static void hold(History.Ask ask, Cycle cycle, Hold hold, Registers writes) throws InterruptedException {
        long until = deadline(hold);
        ask.line("granted", "token", hold.token(), "until", until);
        long end = History.now() + TimeUnit.MILLISECONDS.toMicros(cycle.hold());
        HoldState last = HoldState.HELD;
        CompletableFuture<HoldState> change = hold.changeFrom(last);
        while (true) {
            HoldState state = hold.state();
            if (state == HoldState.LOST) {
                ask.line("lost", "why", hold.lostReason().map(Enum::name).orElse(""));
                // The late write of a client that does not know better.
                writes.write(cycle, hold.token());
                return;
            } else if (state == HoldState.SUSPENDED) {
                if (last != state) {
                    ask.line("suspended");
                }
            } else if (last == HoldState.SUSPENDED) {
                until = deadline(hold);
                ask.line("resumed", "until", until);
            } else {
                long later = deadline(hold);
                // It may have been lost since.
                if (hold.isHeld() && later > until + MOVED) {
                    until = later;
                    ask.line("extended", "until", until);
                }
            }
            if (change.isDone()) {
                change = hold.changeFrom(state);
            }
            last = state;
            long left = end - History.now();
            if (left <= 0) {
                break;
            }
            writes.write(cycle, hold.token());
            try {
                change.get(Math.min(left, TimeUnit.MILLISECONDS.toMicros(LOOK)), TimeUnit.MICROSECONDS);
            } catch (TimeoutException e) {
                // Time for a look.
            } catch (ExecutionException e) {
                throw new IllegalStateException(e);
            }
        }
        ask.line("releasing");
        boolean held = true;
        try {
            hold.release();
        } catch (LeaseholdException e) {
            held = false;
        }
        ask.line("released", "held", held);
    }

    /** Returns the time until which a hold may be relied on. The clock is read first, so that it is never too late. */
    private static long deadline(Hold hold) {
        long at = History.now();
        return at + TimeUnit.NANOSECONDS.toMicros(hold.validFor().toNanos());
    }

    /** A thread's connection to the harness's registers. */
    private static final class Registers {
        private final String address;
        private final String name;
        private Socket socket;
        private BufferedReader answers;

        Registers(String address, String name) {
            this.address = address;
            this.name = name;
        }

        /** Writes to the register of a lock, if it has one, and waits for the answer, which only the register records. */
        void write(Cycle cycle, long token) {
            if (!cycle.hasRegister()) {
                return;
            }
            try {
                if (socket == null) {
                    int colon = address.lastIndexOf(':');
                    socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
                    answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
                }
                String line = "%s %s %d\n".formatted(name, cycle.lock(), token);
                socket.getOutputStream().write(line.getBytes(StandardCharsets.UTF_8));
                if (answers.readLine() == null) {
                    socket = null;
                }
            } catch (IOException e) {
                socket = null;
            }
        }
    }
}
