package dev.leasehold.internal;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** Name of a client that sets none: its program, host and process, by which operators find it. */
public final class ClientName {
    /** Most bytes of the program's name. */
    private static final int LONGEST_PROGRAM = 32;
    /** Most bytes of the host's name. */
    private static final int LONGEST_HOST = 64;

    private ClientName() {}

    /** Returns the name {@code PROGRAM@HOST/PID} of this process. */
    public static String byDefault() {
        return of(program(System.getProperty("sun.java.command", "")), host(), ProcessHandle.current().pid());
    }

    /** Returns the name of a process. */
    static String of(String program, String host, long process) {
        return part(program, LONGEST_PROGRAM) + "@" + part(host, LONGEST_HOST) + "/" + process;
    }

    /** Returns the simple name of the class, or the name of the jar, with which a command line of Java begins. */
    static String program(String command) {
        String first = command.split(" ", 2)[0];
        String file = first.substring(Math.max(first.lastIndexOf('/'), first.lastIndexOf('\\')) + 1);
        return file.endsWith(".jar") ? file.substring(0, file.length() - 4) : file.substring(file.lastIndexOf('.') + 1);
    }

    private static String host() {
        try {
            Path kernel = Path.of("/proc/sys/kernel/hostname");
            // Elsewhere than on Linux, Java only has what the resolver says.
            return Files.exists(kernel) ? Files.readString(kernel).strip() : InetAddress.getLocalHost().getHostName();
        } catch (IOException e) {
            return "";
        }
    }

    /** Returns the text without control characters, which a coordinator would refuse, and with at most so many bytes. */
    private static String part(String text, int most) {
        StringBuilder part = new StringBuilder();
        int length = 0;
        for (int point : text.codePoints().filter(point -> !Character.isISOControl(point)).toArray()) {
            String character = Character.toString(point);
            length += character.getBytes(StandardCharsets.UTF_8).length;
            if (length > most) {
                break;
            }
            part.append(character);
        }
        return part.length() == 0 ? "unknown" : part.toString();
    }
}
