//! Programs from outside: browsers, curl, and the clients of Connect and gRPC-Web in other languages, against real coordinators.

mod connect_clients;
mod connect_conformance;
mod page;
