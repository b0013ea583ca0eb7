package dev.leasehold;

import java.util.Optional;

/**
 * Change of an election's leader, as an observer sees it.
 *
 * @param leader the leader; empty while there is none
 * @param isSkipped whether there may have been other leaders, or values, since the change before: the program did not read in time, there was
 *     no connection, or the coordinator could not follow for a while
 */
public record LeaderChange(Optional<Leader> leader, boolean isSkipped) {}
