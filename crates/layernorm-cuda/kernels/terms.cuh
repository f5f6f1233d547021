// What kernels compute of a row before its elements.
#pragma once
#include "number.cuh"

// The statistics of rule 3.
struct Stat { A m, delta, r; };

// Statistics from which x̂ is computed; of a row that was scaled by 2^k (rule 6), those of the scaled row.
struct Line { A m, delta, r; int k; };

// The terms of rule 4. For an extreme row (rule 6) x, dy and γ are scaled by 2^k, 2^j and 2^l; otherwise these are 0.
struct Terms { Stat stat; A a, b; int k, j, l; };
