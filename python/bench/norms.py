"""Layer norm on the CPU: PyTorch and ours. Modules as users call them, and kernels without Python around them."""

import torch
from direct import Norm
from machine import Others
from norm_problem import Problem, forward
from norm_proof import prove, same_bits
from norm_report import WORKS, Row, Run, as_json, page
from options import Unusable, chosen, command
from race import calm_race
from report import DISTURBED, publish, say


def compare(options):
    names = [
        f"{shape}-{dtype}-{work.replace(' ', '-')}"
        for shape in options.shapes
        for dtype in options.dtypes
        for work in WORKS
    ]
    names = chosen(names, options.only)
    others, rows, parts = Others(), [], {}
    try:
        for row in measurements(options, names, parts):
            rows.append(row)
    except KeyboardInterrupt:
        if not rows:
            raise
    say("")
    run = Run(command(options), parts, others.share(), len(names) * len(options.threads))
    publish(options, page(rows, run), as_json(rows, run))


def measurements(options, names, parts):
    """Yields the rows of the tables. Adds the largest errors to `parts`, by type and result."""
    for shape in options.shapes:
        for dtype in options.dtypes:
            works = [work for work in WORKS if f"{shape}-{dtype}-{work.replace(' ', '-')}" in names]
            if not works:
                continue
            say(f"{shape} {dtype}: proving")
            problem = Problem(shape, dtype)
            largest = parts.setdefault(dtype, {})
            for name, part in proved(problem, options.threads).items():
                largest[name] = max(part, largest.get(name, 0.0))
            for threads in options.threads:
                torch.set_num_threads(threads)
                for work in works:
                    say(f"{shape} {dtype}: {work}, threads {threads}")
                    yield measure(problem, work, threads, options)


def measure(problem, work, threads, options):
    with torch.set_grad_enabled(work == "modules training"):
        timings, others = calm_race(
            problem.contestants(work, threads),
            options.seconds,
            options.rounds,
            threads,
            options.patience,
            Others,
            DISTURBED,
        )
    return Row(problem.shape, problem.dtype, threads, work, timings, others)


def proved(problem, counts):
    """Returns the errors relative to their bounds. All ways to call ours must give the same bits, with any thread count."""
    p = problem
    torch.set_num_threads(max(counts))
    ours = Norm(p, counts[0])
    ours.forward(p.y)()
    ours.backward(p.gradients)()
    expected = [p.y, *p.gradients]
    with torch.no_grad():
        parts = prove(p, *expected)
    for threads in counts:
        torch.set_num_threads(threads)
        ours = Norm(p, threads)
        allocated = [ours.forward()(), *ours.backward()()]
        module = p.module()
        for found in (allocated, p.training(module)(), [forward(module, p.x)()]):
            for name, result, other in zip(parts, found, expected):
                if not same_bits(result.detach(), other):
                    raise Unusable(f"{p.shape} {p.dtype}: {name} has other bits in another call")
    return parts
