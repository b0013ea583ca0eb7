"""Parts of the driver for the conformance runner."""
