// Parameters of all row kernels. src/rows/params.rs declares the same fields.
#pragma once
#include "terms.cuh"

struct Messages;

struct ForwardParams {
    const T* x;
    const T* residual;
    T* h;
    T* y;
    const void* gain;
    const void* bias;
    A* m;
    A* delta;
    A* rstd;
    i64 rows, n;
    i64 stride_x, stride_residual, stride_h, stride_y;
    i64 span, groups;
    Count count;
    A eps;
};

struct BackwardParams {
    const T* x;
    const T* dy;
    const T* dh;
    T* dx;
    const void* gain;
    const A* m;
    const A* delta;
    const A* rstd;
    A* sums;   // [2][parts][n]
    Line* lines;  // statistics of scaled rows, for kernels that need their x̂ later
    Messages* messages;  // for streaming rows
    i64 rows, n, parts;
    i64 stride_x, stride_dy, stride_dh, stride_dx;
    i64 span, groups;
    Count count;
    A eps;
};
