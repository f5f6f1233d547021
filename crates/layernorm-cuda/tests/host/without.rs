//! Removes code that only a GPU compiler accepts from kernel sources.
use crate::compiler::end_of;

/// The text without the function of this name.
pub fn without(text: &str, function: &str) -> String {
    let name = text.find(&format!(" {function}(")).unwrap_or_else(|| panic!("no function {function}"));
    let start = text[..name].rfind('\n').map_or(0, |at| at + 1);
    format!("{}{}", &text[..start], &text[name + end_of(&text[name..])..])
}
