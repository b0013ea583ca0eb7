package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.leasehold.processes.Coordinator;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import java.util.zip.Deflater;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Program in one jar, into which all others were merged: of files with one name, the first one is in it. */
@Timeout(300)
class PackagedTest {
    private static final String POLICIES = "META-INF/services/io.grpc.LoadBalancerProvider";

    @TempDir
    private Path folder;

    @Test
    void aJarThatLostAListOfServicesConnects() throws Exception {
        Path jar = folder.resolve("program.jar");
        merge(jar);
        try (JarFile merged = new JarFile(jar.toFile());
                InputStream list = merged.getInputStream(merged.getEntry(POLICIES))) {
            assertFalse(new String(list.readAllBytes(), StandardCharsets.UTF_8).contains("PickFirst"), "nothing is missing");
        }
        try (Coordinator coordinator = Coordinator.start()) {
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            Process process = new ProcessBuilder(java, "-cp", jar.toString(), Program.class.getName(), coordinator.url())
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            try {
                assertEquals("held", process.inputReader().readLine());
            } finally {
                process.destroyForcibly().waitFor();
            }
        }
    }

    /** Merges the class path into a jar. */
    private static void merge(Path jar) throws IOException {
        try (ZipOutputStream merged = new ZipOutputStream(Files.newOutputStream(jar))) {
            merged.setLevel(Deflater.NO_COMPRESSION);
            Set<String> names = new HashSet<>();
            for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
                Path path = Path.of(part);
                if (Files.isDirectory(path)) {
                    try (Stream<Path> files = Files.walk(path)) {
                        for (Path file : files.filter(Files::isRegularFile).toList()) {
                            String name = path.relativize(file).toString().replace(File.separatorChar, '/');
                            add(merged, names, name, Files.newInputStream(file));
                        }
                    }
                } else if (Files.exists(path)) {
                    try (JarFile from = new JarFile(path.toFile())) {
                        List<? extends ZipEntry> entries = from.stream().filter(entry -> !entry.isDirectory()).toList();
                        for (ZipEntry entry : entries) {
                            add(merged, names, entry.getName(), from.getInputStream(entry));
                        }
                    }
                }
            }
        }
    }

    private static void add(ZipOutputStream merged, Set<String> names, String name, InputStream content) throws IOException {
        try (content) {
            if (names.add(name)) {
                merged.putNextEntry(new ZipEntry(name));
                content.transferTo(merged);
            }
        }
    }

    /** Program that takes a lock. */
    static final class Program {
        private Program() {}

        public static void main(String[] arguments) throws Exception {
            try (LeaseholdClient client = LeaseholdClient.builder(arguments[0]).connect();
                    Hold hold = client.lock("a").acquire()) {
                hold.check();
                System.out.println("held");
            }
        }
    }
}
