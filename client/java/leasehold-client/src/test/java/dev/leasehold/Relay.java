package dev.leasehold;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/** Relay between clients and a coordinator, whose connections can be cut or refused, or fall silent. */
final class Relay implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    private final List<Socket> open = new ArrayList<>();
    private final ReentrantLock speaking = new ReentrantLock();
    private String target;
    /** Whether new connections are closed at once. */
    volatile boolean isRefusing;

    Relay() throws IOException {}

    /** Sets the coordinator; returns the URL of the relay. */
    String to(String address) {
        target = address;
        start(() -> {
            while (true) {
                Socket client = listener.accept();
                if (isRefusing) {
                    client.close();
                    continue;
                }
                String[] parts = target.split(":");
                Socket server = new Socket(parts[0], Integer.parseInt(parts[1]));
                synchronized (open) {
                    open.add(client);
                    open.add(server);
                }
                start(() -> copy(client, server));
                start(() -> copy(server, client));
            }
        });
        return "http://127.0.0.1:" + listener.getLocalPort();
    }

    private interface Task {
        void run() throws IOException;
    }

    private static void start(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (IOException e) {
                // Cut or closed.
                return;
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void copy(Socket from, Socket to) throws IOException {
        byte[] bytes = new byte[1 << 14];
        try (from; to; InputStream input = from.getInputStream()) {
            for (int count = input.read(bytes); count >= 0; count = input.read(bytes)) {
                speaking.lock();
                speaking.unlock();
                to.getOutputStream().write(bytes, 0, count);
            }
        }
    }

    /** Hands nothing on in either direction, and closes nothing, until the same thread lets it {@link #speak}. */
    void fallSilent() {
        speaking.lock();
    }

    /** Hands on what has come in the silence, and what comes. */
    void speak() {
        speaking.unlock();
    }

    /** Cuts all connections. New ones are relayed. */
    void cut() throws IOException {
        synchronized (open) {
            for (Socket one : open) {
                one.close();
            }
            open.clear();
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }
}
