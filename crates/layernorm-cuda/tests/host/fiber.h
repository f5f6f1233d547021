// Fibers: the threads of a kernel on the CPU. glibc's swapcontext makes a system call for the signal mask at every
// switch, which took most of a test's time. So x86-64 has its own switch; other processors use glibc's.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)

// Saves the callee-saved registers and the stack pointer to `from`, and continues on the stack `to`.
extern "C" void fiber_switch(void **from, void *to);
asm(R"(
    .text
    .globl fiber_switch
    .type fiber_switch, @function
fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size fiber_switch, . - fiber_switch
)");

struct FiberContext {
    void *stack = nullptr;

    // `entry` starts at the first switch and never returns: it leaves with a last switch.
    void start(char *memory, size_t bytes, void (*entry)()) {
        uintptr_t *top = (uintptr_t *)((uintptr_t)(memory + bytes) / 16 * 16) - 2;
        top[0] = (uintptr_t)entry;
        top[1] = 0;
        for (int i = 1; i <= 6; i++) top[-i] = 0;
        stack = top - 6;
    }
    void switch_to(FiberContext &other) { fiber_switch(&stack, other.stack); }
};

#else

#include <ucontext.h>

struct FiberContext {
    ucontext_t context;

    void start(char *memory, size_t bytes, void (*entry)()) {
        getcontext(&context);
        context.uc_stack.ss_sp = memory, context.uc_stack.ss_size = bytes, context.uc_link = nullptr;
        makecontext(&context, entry, 0);
    }
    void switch_to(FiberContext &other) { swapcontext(&context, &other.context); }
};

#endif
