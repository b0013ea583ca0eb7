"""Trace context of OpenTelemetry, for `leasehold_client.connect(…, trace_context=leasehold_client.opentelemetry.trace_context)`.

It needs the extra `leasehold-client[opentelemetry]`.
"""

from __future__ import annotations

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["trace_context"]

_propagator = TraceContextTextMapPropagator()


def trace_context() -> str | None:
    """Returns the `traceparent` of the current span; none outside of a span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent")
