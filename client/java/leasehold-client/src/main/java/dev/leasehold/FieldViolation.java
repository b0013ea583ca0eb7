package dev.leasehold;

/**
 * Fault in one field of a request, in the coordinator's words.
 *
 * @param field path of the field in the request, for example {@code acquire.name}
 * @param description what was wrong, and what is accepted
 */
public record FieldViolation(String field, String description) {}
