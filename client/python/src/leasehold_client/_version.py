"""Version of this library: that of the coordinator that it was made with."""

VERSION = "0.1.0"
