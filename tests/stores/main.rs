//! Every kind of store: the same cases on each, and what is special to replicas, Sentinel, Cluster and a quorum.

mod cluster;
mod conformance;
mod quorum;
mod replicas;
mod sentinel;
mod store;
