package dev.leasehold.spring.boot;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;

/** TCP proxy in front of a coordinator that can go silent: what is sent then stays where it is, and no connection ends. */
final class Link implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final URI target;
    private boolean isCut;

    Link(String url) throws IOException {
        target = URI.create(url);
        start(() -> {
            while (true) {
                Socket client = listener.accept();
                Socket server = new Socket(target.getHost(), target.getPort());
                start(() -> pump(client, server));
                start(() -> pump(server, client));
            }
        });
    }

    private interface Action {
        void run() throws IOException, InterruptedException;
    }

    private static void start(Action action) {
        Thread thread = new Thread(() -> {
            try {
                action.run();
            } catch (IOException | InterruptedException e) {
                return;
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void pump(Socket from, Socket to) throws IOException, InterruptedException {
        try (from;
                to) {
            InputStream input = from.getInputStream();
            OutputStream output = to.getOutputStream();
            byte[] buffer = new byte[8192];
            for (int read = input.read(buffer); read >= 0; read = input.read(buffer)) {
                awaitPassage();
                output.write(buffer, 0, read);
            }
        }
    }

    private synchronized void awaitPassage() throws InterruptedException {
        while (isCut) {
            wait();
        }
    }

    /** Cuts it, or mends it. */
    synchronized void cut(boolean isNowCut) {
        isCut = isNowCut;
        notifyAll();
    }

    String url() {
        return "http://127.0.0.1:" + listener.getLocalPort();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
