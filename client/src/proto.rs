//! Messages and stubs of the wire API, and the conversion of their fields.

use std::time::{Duration, SystemTime};

pub(crate) use leasehold_proto::v1;

/// Returns a duration of the wire API; `None` if it is unset or negative.
pub(crate) fn duration(wire: Option<prost_types::Duration>) -> Option<Duration> {
    wire.and_then(|wire| Duration::try_from(wire).ok())
}

/// Returns a duration for the wire API.
pub(crate) fn wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}

/// Conversion of a value of the wire API to one of this crate's interface. The wire API has defaults for what is none.
pub(crate) trait FromWire<W> {
    fn from_wire(wire: W) -> Self;
}

impl<T> FromWire<T> for T {
    fn from_wire(wire: T) -> T {
        wire
    }
}

impl<T: Default + PartialEq> FromWire<T> for Option<T> {
    fn from_wire(wire: T) -> Self {
        (wire != T::default()).then_some(wire)
    }
}

impl FromWire<Option<prost_types::Timestamp>> for Option<SystemTime> {
    fn from_wire(wire: Option<prost_types::Timestamp>) -> Self {
        wire.and_then(|wire| SystemTime::try_from(wire).ok())
    }
}

impl FromWire<Option<prost_types::Duration>> for Option<Duration> {
    fn from_wire(wire: Option<prost_types::Duration>) -> Self {
        duration(wire)
    }
}

impl FromWire<Option<prost_types::Duration>> for Duration {
    fn from_wire(wire: Option<prost_types::Duration>) -> Self {
        duration(wire).unwrap_or_default()
    }
}

/// Implements the conversion of a message to a type whose fields have the same names.
macro_rules! from_message {
    ($message:ident => $type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::proto::FromWire<$crate::proto::v1::$message> for $type {
            fn from_wire(wire: $crate::proto::v1::$message) -> Self {
                Self { $($field: $crate::proto::FromWire::from_wire(wire.$field),)* }
            }
        }

        impl $crate::proto::FromWire<Option<$crate::proto::v1::$message>> for Option<$type> {
            fn from_wire(wire: Option<$crate::proto::v1::$message>) -> Self {
                wire.map($crate::proto::FromWire::from_wire)
            }
        }

        impl $crate::proto::FromWire<Vec<$crate::proto::v1::$message>> for Vec<$type> {
            fn from_wire(wire: Vec<$crate::proto::v1::$message>) -> Self {
                wire.into_iter().map($crate::proto::FromWire::from_wire).collect()
            }
        }
    };
}

/// Implements the conversion of an enum of the wire API to one that has the same name and the same values.
macro_rules! from_enum {
    ($name:ident { $($value:ident),* $(,)? }) => {
        impl $crate::proto::FromWire<i32> for Option<$name> {
            fn from_wire(wire: i32) -> Self {
                match $crate::proto::v1::$name::try_from(wire).unwrap_or_default() {
                    $crate::proto::v1::$name::Unspecified => None,
                    $($crate::proto::v1::$name::$value => Some($name::$value),)*
                }
            }
        }
    };
}

pub(crate) use {from_enum, from_message};
