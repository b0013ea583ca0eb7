/**
 * Rules of a session, pure: no I/O, no thread, no clock. Time is passed in, and what is to be done comes out. {@link
 * dev.leasehold.internal.machine.Machine} is the entry.
 */
package dev.leasehold.internal.machine;
