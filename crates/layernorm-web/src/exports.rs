//! The functions that the module exports: all that a page can call.
//!
//! A page asks for a request of some words (`layernorm_request`), writes the words of a message into the module's memory,
//! and calls (`layernorm_call`). The response begins with a word that is 0 for a result and 1 for an error text; then
//! comes a message. It stays where it is until the next call.
//!
//! The only unsafe thing here is that the names of the functions are used as they are. The page writes into memory that
//! belongs to a vector, between two calls: no Rust code runs then.
#![allow(unsafe_code)]

use crate::engine::Engine;
use crate::message::Value;
use std::cell::RefCell;

/// What lives between two calls.
struct Host {
    engine: Option<Engine>,
    request: Vec<u32>,
    response: Vec<u32>,
}

thread_local! {
    static HOST: RefCell<Host> = const { RefCell::new(Host { engine: None, request: Vec::new(), response: Vec::new() }) };
}

/// Makes room for a request of this many words and returns where they go; null if there is no memory for it.
// The name is unique in the module.
#[unsafe(no_mangle)]
extern "C" fn layernorm_request(words: usize) -> *mut u32 {
    HOST.with_borrow_mut(|host| {
        (host.request, host.response) = (Vec::new(), Vec::new());
        if host.request.try_reserve_exact(words).is_err() {
            return std::ptr::null_mut();
        }
        host.request.resize(words, 0);
        host.request.as_mut_ptr()
    })
}

/// Runs the request and returns where the response is.
#[unsafe(no_mangle)]
extern "C" fn layernorm_call() -> *const u32 {
    HOST.with_borrow_mut(|host| {
        let request = std::mem::take(&mut host.request);
        let outcome = host.run(request);
        let (status, message) = match outcome {
            Ok(message) => (0, message),
            Err(message) => (1, message),
        };
        host.response = message;
        host.response.insert(0, status);
        host.response.as_ptr()
    })
}

impl Host {
    fn run(&mut self, request: Vec<u32>) -> Result<Vec<u32>, Vec<u32>> {
        if self.engine.is_none() {
            self.engine = Some(Engine::new().map_err(|error| {
                let mut words = Vec::new();
                Value::Text(error.to_string()).write(&mut words);
                words
            })?);
        }
        match &mut self.engine {
            Some(engine) => engine.call(&request),
            None => Err(Vec::new()),
        }
    }
}

/// Returns the number of words of the response.
#[unsafe(no_mangle)]
extern "C" fn layernorm_response_words() -> usize {
    HOST.with_borrow(|host| host.response.len())
}
