//! A coordinator as its operators see it: settings, messages, metrics, traces, certificates, secrets, and the doctor.

mod doctor;
mod observability;
mod secrets;
mod settings;
mod tls;
mod traces;
