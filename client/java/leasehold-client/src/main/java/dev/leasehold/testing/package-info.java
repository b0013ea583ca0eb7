/** Coordinator for unit tests of programs that use the client: in memory, inside the test's process. Its entry is {@link TestCoordinator}. */
package dev.leasehold.testing;
