//! Tests of access: identities, permissions, and the fate of streams that lose theirs.

mod certificates;
mod client;
mod ended;
mod failed;
mod gone;
mod kept;
mod max_hold;
mod resumed;
mod revoked;
mod shown;
mod signed;
mod site;
mod streams;
mod switched;
mod table;
mod tokens;
