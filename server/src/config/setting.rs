//! Types of the settings' values, and the macro that declares the table of settings.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{ClientAuth, LogFormat, Origins, Share, StoreUrl, value};

/// The TOML type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Number,
    /// A number from 0 to 1.
    Fraction,
    Boolean,
}

/// A type of values of settings.
pub(super) trait Value {
    const SHAPE: Shape;
    /// Placeholder for a value in the help.
    const NAME: &'static str;
    /// Returns the value as text, or `None` if there is none.
    fn show(&self) -> Option<String>;
}

impl<T: Value> Value for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const NAME: &'static str = T::NAME;
    fn show(&self) -> Option<String> {
        self.as_ref()?.show()
    }
}

/// Implements [`Value`] by the type's shape, its placeholder, and what shows it.
macro_rules! values {
    ($($type:ty: $shape:ident, $name:literal, $show:expr;)+) => {$(
        impl Value for $type {
            const SHAPE: Shape = Shape::$shape;
            const NAME: &'static str = $name;
            fn show(&self) -> Option<String> {
                Some($show(self))
            }
        }
    )+};
}

values! {
    SocketAddr: Text, "ADDRESS", ToString::to_string;
    bool: Boolean, "true|false", ToString::to_string;
    usize: Number, "NUMBER", ToString::to_string;
    u32: Number, "NUMBER", ToString::to_string;
    Share: Fraction, "SHARE", ToString::to_string;
    Duration: Text, "DURATION", |duration: &Duration| value::show_duration(*duration);
    String: Text, "TEXT", Clone::clone;
    PathBuf: Text, "FILE", |path: &PathBuf| path.display().to_string();
    StoreUrl: Text, "URL", ToString::to_string;
    Origins: Text, "ORIGINS", ToString::to_string;
    ClientAuth: Text, "none|optional|required", value::show_choice;
    LogFormat: Text, "human|json", value::show_choice;
}

/// Returns the last of some placeholders.
pub(super) const fn last(names: &[&'static str]) -> &'static str {
    names[names.len() - 1]
}

/// Returns the example, if there is one.
pub(super) const fn first(examples: &[&'static str]) -> Option<&'static str> {
    examples.first().copied()
}

/// Declares every setting once: from the table it makes [`Config`], its defaults, and [`SETTINGS`].
///
/// An entry has the setting's help as its documentation, its name, its field and type, its default, and the reader of its text.
/// It may name another placeholder than its type's (`value`), an `example`, and say that a change takes effect without a restart
/// (`live: true`).
macro_rules! settings {
    ($(
        $(#[doc = $line:literal])+
        $name:literal $field:ident: $type:ty = $default:expr, $read:expr
        $(, value: $value_name:literal)? $(, example: $example:literal)? $(, live: $live:literal)?;
    )+) => {
        /// The coordinator's settings, checked. [`Config::from_args`] builds it. Each field is documented as in
        /// `leasehold-server --help` and in `leasehold.toml`, which have the defaults too.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Config {
            $($(#[doc = $line])+ pub $field: $type,)+
            /// Permissions of callers: the tables `[[permission]]` of the file. None by default.
            pub permissions: Vec<Rule>,
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)+ permissions: Vec::new() }
            }
        }

        /// Every setting, in the order of the help and of the reference file.
        pub(super) static SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            shape: <$type as Value>::SHAPE,
            value_name: last(&[<$type as Value>::NAME $(, $value_name)?]),
            lines: concat!($($line),+),
            set: |config, text| {
                config.$field = $read(text)?;
                Ok(())
            },
            show: |config| config.$field.show(),
            is_same: |config, other| config.$field == other.$field,
            is_live: false $(|| $live)?,
            example: first(&[$($example)?]),
        },)+];
    };
}
pub(super) use settings;
