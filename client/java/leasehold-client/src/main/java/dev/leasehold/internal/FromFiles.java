package dev.leasehold.internal;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * Value made from files, and made anew when one of them has changed. If it can't be made then, for example because a file is half written,
 * it stays as it was.
 */
final class FromFiles<T> {
    /** Age below which a changed file is read again, though its time has not changed: file systems keep times in steps. */
    private static final long UNSETTLED_MILLIS = 1000;

    /** Maker of the value from the contents, in the order of the paths. */
    interface Parser<T> {
        T parse(List<byte[]> contents) throws IOException;
    }

    /** A value, and a number that rises whenever another one is made. */
    record Version<T>(T value, long number) {}

    private record Stamp(Object key, long size, long modified) {}

    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    private final List<Path> paths;
    private final Parser<T> parser;
    private Version<T> version;
    private List<byte[]> contents;
    private List<Stamp> stamps;
    private boolean isSettled;

    FromFiles(List<Path> paths, Parser<T> parser) throws IOException {
        this.paths = paths;
        this.parser = parser;
        // Before they are read: what changes in between is read again.
        look();
        contents = read();
        version = new Version<>(parser.parse(contents), 0);
    }

    /** Returns the value for the files as they are now. */
    synchronized Version<T> current() {
        List<Stamp> before = stamps;
        boolean wasSettled = isSettled;
        look();
        boolean isNews = !stamps.equals(before);
        if (!isNews && wasSettled) {
            return version;
        }
        try {
            List<byte[]> found = read();
            if (!areEqual(found, contents)) {
                version = new Version<>(parser.parse(found), version.number() + 1);
                contents = found;
            }
        } catch (IOException | RuntimeException e) {
            if (isNews) {
                LOG.log(System.Logger.Level.WARNING, "a changed file of " + paths + " can't be used: what was read before stays in use", e);
            }
        }
        return version;
    }

    private void look() {
        stamps = new ArrayList<>();
        isSettled = true;
        for (Path path : paths) {
            try {
                BasicFileAttributes file = Files.readAttributes(path, BasicFileAttributes.class);
                long modified = file.lastModifiedTime().toMillis();
                stamps.add(new Stamp(Objects.requireNonNullElse(file.fileKey(), path), file.size(), modified));
                isSettled &= System.currentTimeMillis() - modified >= UNSETTLED_MILLIS;
            } catch (IOException e) {
                stamps.add(null);
                isSettled = false;
            }
        }
    }

    private List<byte[]> read() throws IOException {
        List<byte[]> all = new ArrayList<>();
        for (Path path : paths) {
            all.add(Files.readAllBytes(path));
        }
        return all;
    }

    private static boolean areEqual(List<byte[]> one, List<byte[]> other) {
        for (int i = 0; i < one.size(); i++) {
            if (!Arrays.equals(one.get(i), other.get(i))) {
                return false;
            }
        }
        return true;
    }
}
