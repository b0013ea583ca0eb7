/** Traces and metrics of the client for OpenTelemetry, whose API the program brings along: this library works without it. */
package dev.leasehold.opentelemetry;
