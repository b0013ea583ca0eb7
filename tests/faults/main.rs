//! Faults: processes killed and stopped, connections cut, messages lost, coordinators restarted, clients that abuse.

mod abuse;
mod breaks;
mod connections;
mod lost_messages;
mod restarts;
