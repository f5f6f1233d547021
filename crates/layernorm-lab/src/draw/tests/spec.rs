//! What a spec refuses.

use super::tiny;
use crate::draw::{Norms, Spec};
use crate::studies::tools::testing::data;

fn error(change: impl FnOnce(&mut Spec)) -> String {
    let mut spec = tiny(Norms::Cell, Some([2, 28]));
    spec.data = data().label();
    spec.check(data()).unwrap();
    change(&mut spec);
    spec.check(data()).unwrap_err().to_string()
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    for (found, expected) in [
        (error(|spec| spec.glimpses = 0), "glimpses: expected 1 or more, found 0"),
        (error(|spec| spec.attention = Some([1, 5])), "attention: expected 2 to 28 filters, found 1"),
        (error(|spec| spec.images.halved = true), "attention: expected 2 to 14 filters, found 28"),
        (error(|spec| spec.batch_size = 3), "batch size: expected 1 to 2, found 3"),
        (error(|spec| spec.learning_rate = 0.0), "learning rate: expected a number above 0, found 0"),
        (error(|spec| spec.test = 2001), "test images: expected at most 2000, found 2001"),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn memory_grows_with_the_sizes() {
    let bytes = |change: &dyn Fn(&mut Spec)| {
        let mut spec = tiny(Norms::Cell, None);
        change(&mut spec);
        spec.memory(data())
    };
    let plain = bytes(&|_| {});
    assert!(bytes(&|spec| spec.hidden = 400) > 2.0 * plain);
    assert!(bytes(&|spec| spec.batch_size = 200) > 2.0 * plain);
    assert!(bytes(&|spec| spec.images.halved = true) < plain);
}
