"""Recurrent networks on the CPU: torch.nn, a layer-normalized cell in eager PyTorch, and ours."""

import dataclasses

import torch
from direct import Network
from machine import Others
from options import chosen, command
from race import STRETCH_NS, calm_race
from recurrent_cells import GATES, VARIANTS, Problem, Size, changer, gradients
from recurrent_proof import TOLERANCE, prove, prove_steps
from recurrent_report import Row, Run, as_json, page
from report import DISTURBED, publish, say

SIZES = [Size(64, 28, 28, 128), Size(1, 28, 28, 128), Size(32, 100, 128, 256), Size(64, 100, 256, 512)]
STEPS = [Size(1, 1, 512, 512), Size(1, 1, 128, 128)]

# A program that runs single steps has its weights in the cache: long enough that loading them does not matter.
STREAM_NS = 10_000_000


def compare(options):
    cases = [Case(cell, size, False) for cell in GATES for size in SIZES]
    cases += [Case(cell, size, True) for cell in GATES for size in STEPS]
    named = {str(case): case for case in cases}
    run = Run(command(options), options.hoist_norm, TOLERANCE)
    others, rows = Others(), []
    try:
        for name in chosen(list(named), options.only):
            for row in named[name].rows(options, run.errors):
                rows.append(row)
    except KeyboardInterrupt:
        if not rows:
            raise
    say("")
    run.others = others.share()
    publish(options, page(rows, run), as_json(rows, run))


@dataclasses.dataclass(frozen=True)
class Case:
    """A cell and a size, as whole sequences or as single steps."""

    cell: str
    size: Size
    single: bool

    def __str__(self):
        return f"{self.cell}-step-{self.size.hidden}" if self.single else f"{self.cell}-{self.size}"

    def rows(self, options, errors):
        problem = Problem(self.cell, self.size, options.hoist_norm)
        for threads in options.threads:
            torch.set_num_threads(threads)
            for variant in VARIANTS:
                say(f"{self} {variant}: proving")
                ours = problem.ours(variant)
                if self.single:
                    found = prove_steps(self, problem, variant, ours)
                else:
                    found = prove(self, problem, variant, ours, Network(problem, variant, threads))
                errors[f"{self} {variant}"] = found
            contests = {"step": self.steps} if self.single else {"forward": self.forward, "training step": self.train}
            for work, contest in contests.items():
                say(f"{self}: {work}, threads {threads}")
                with torch.inference_mode(work != "training step"):
                    timings, others = calm_race(
                        contest(problem, threads),
                        options.seconds,
                        options.rounds,
                        threads,
                        options.patience,
                        Others,
                        DISTURBED,
                        STREAM_NS if self.single else STRETCH_NS,
                    )
                yield Row(self.cell, self.size, threads, work, timings, others)

    @staticmethod
    def modules(problem):
        return {
            "plain": problem.torch("none"),
            "paper": problem.ours("paper"),
            "eager": problem.torch("paper"),
            "none": problem.ours("none"),
        }

    def forward(self, problem, threads):
        x = problem.x
        calls = {name: lambda module=module: module(x) for name, module in self.modules(problem).items()}
        direct = {f"direct {variant}": Network(problem, variant, threads).forward() for variant in VARIANTS}
        return calls | direct

    def train(self, problem, threads):
        x, dy = problem.x.clone().requires_grad_(), problem.dy

        def call(module):
            change = changer(module.named["recurrent_weight"])

            def step():
                change()
                return gradients(module, x, dy)

            return step

        def direct(variant):
            network = Network(problem, variant, threads)
            return network.train(changer(network.parameters["recurrent_weight"]))

        calls = {name: call(module) for name, module in self.modules(problem).items()}
        return calls | {f"direct {variant}": direct(variant) for variant in VARIANTS}

    def steps(self, problem, threads):
        x = problem.x[0]
        steppers = {name: module.stepper() for name, module in self.modules(problem).items()}
        return {name: lambda step=step: step(x) for name, step in steppers.items()}
