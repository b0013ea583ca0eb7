package dev.leasehold.internal.machine;

/**
 * Identity of a hold at a coordinator.
 *
 * @param name the lock's name
 * @param ids ids by which coordinators may know it
 * @param number the hold's number here; 0 where there is none
 */
record Owned(String name, OwnerIds ids, long number) {}
