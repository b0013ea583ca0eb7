//! Names of identities, without their kinds.

/// Most bytes of an name.
const MAX_NAME: usize = 256;

/// Checks the name of an identity; the error says what was expected.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "expected a name of 1 to {MAX_NAME} bytes without control characters"
        ));
    }
    Ok(())
}
