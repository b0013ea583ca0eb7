/** Metrics of the client for Micrometer, which the program brings along: this library works without it. */
package dev.leasehold.micrometer;
