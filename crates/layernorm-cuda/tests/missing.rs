//! Error messages if there is no driver or no such GPU. With a driver, the first test is ignored.
mod harness;

use layernorm_cuda::{Device, Error};

fn without_a_driver(error: &Error) -> Result<(), String> {
    let text = error.to_string();
    let said = text.contains("driver") && text.contains("libcuda");
    if said { Ok(()) } else { Err(format!("expected a message about what is missing, found: {text}")) }
}

fn a_gpu_that_is_not_there() -> Result<(), String> {
    match Device::open(1000) {
        Err(Error::NoDevice { ordinal: 1000, count }) if count < 1000 => Ok(()),
        other => Err(format!("GPU 1000: {other:?}")),
    }
}

fn main() {
    let opened = Device::open(0).err();
    let (no_driver, why) = match opened {
        Some(error @ Error::NoDriver { .. }) => (Some(error), "no GPU: there is no driver to count them"),
        Some(Error::OldDriver { .. } | Error::Driver { .. }) => (None, "no GPU: the driver does not work"),
        _ => (None, ""),
    };
    let there = no_driver.is_none().then_some("there is a GPU or its driver");
    let tests = vec![
        harness::test("without_a_driver_the_error_says_so", there, move || {
            no_driver.as_ref().map_or(Ok(()), without_a_driver)
        }),
        harness::test("a_gpu_that_is_not_there_is_named", (!why.is_empty()).then_some(why), a_gpu_that_is_not_there),
    ];
    harness::run(tests, true)
}
