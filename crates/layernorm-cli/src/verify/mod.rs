//! `layernorm verify`: the numerical contract, checked on this machine.

mod accuracy;
mod case;
mod identity;
mod inputs;
mod recurrent;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::show::{self, Progress, Table};
use crate::textbook::Way;
use accuracy::Accuracy;
use identity::Identity;
use layernorm::Context;
use recurrent::Recurrent;
use serde::Serialize;

/// Check the numerical contract on this machine.
///
/// Accuracy: the error on easy and hard f32 rows against a 106-bit reference, for this library and for common
/// implementations of layer norm. Reproducibility: every instruction set of this machine, several thread counts and several
/// ways to split the batch must give the same bits, for all four element types, forward and backward. The same is checked for
/// recurrent networks, including single steps against whole sequences, together with the error of f32 against f64.
///
/// Exit status 0 if everything is within the contract, 1 if anything is not.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Skip the larger shapes and some recurrent variants
    #[arg(long)]
    quick: bool,
    /// Print only a checksum of random cases, norms and recurrent cells: 16 digits that are the same on every machine, and in a
    /// browser (`engine.checksum(seed, cases)` of layernorm-web)
    #[arg(long, conflicts_with = "quick")]
    checksum: bool,
    /// How many cases the checksum covers
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "checksum", value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    cases: u64,
    /// Seed of the cases
    #[arg(long, value_name = "S", default_value_t = 1, requires = "checksum")]
    seed: u64,
}

/// The checksum, for `--json`.
#[derive(Debug, Serialize)]
struct Checksum {
    command: &'static str,
    checksum: String,
    cases: u64,
    seed: u64,
}

/// The results of all checks.
#[derive(Debug, Serialize)]
pub struct Report {
    command: &'static str,
    ok: bool,
    machine: Machine,
    accuracy: Accuracy,
    identity: Identity,
    recurrent: Recurrent,
}

impl Report {
    /// Runs all checks.
    pub fn new(quick: bool) -> Result<Self, Failure> {
        let progress = Progress::new();
        let mut cx = Context::new();
        let machine = Machine::new(&cx)?;
        let accuracy = Accuracy::new(&mut cx, &progress)?;
        let identity = Identity::new(quick, &progress)?;
        let recurrent = Recurrent::new(quick, &progress)?;
        let ok = accuracy.ok && identity.ok && recurrent.ok;
        Ok(Report { command: "verify", ok, machine, accuracy, identity, recurrent })
    }

    /// The report as text.
    pub fn render(&self) -> String {
        let recurrent = self.recurrent.render();
        format!("{}\n\n{}\n{}\n{recurrent}", self.machine, self.render_accuracy(), self.render_identity())
    }

    /// Fails unless everything is within the contract.
    pub fn verdict(&self) -> Result<(), Failure> {
        let (accuracy, identity) = (&self.accuracy, &self.identity);
        if self.ok {
            return Ok(());
        }
        let networks = &self.recurrent;
        let error = networks.groups.iter().filter_map(|group| group.largest_error).fold(0.0, f64::max);
        let bad = accuracy.rows.iter().filter(|row| !row.ok).map(|row| row.input.as_str()).collect::<Vec<_>>();
        Err(Failure::out_of_contract(format!(
            "outside the contract: expected errors of at most {} units and 0 differing bits, found {} differing bits{}; \
             recurrent networks: expected errors of at most {} units and 0 differing bits, found {error:.1} units and \
             {} bits",
            accuracy.limit,
            identity.differing_bits,
            if bad.is_empty() { String::new() } else { format!(" and larger errors on: {}", bad.join("; ")) },
            networks.limit,
            networks.differing_bits,
        )))
    }

    fn render_accuracy(&self) -> String {
        let Accuracy { limit, rows, ok, .. } = &self.accuracy;
        let mut table = Table::new(1, ["input", "N", "rows"].into_iter().chain(Way::ALL.map(Way::name)));
        for row in rows {
            let head = [row.input.clone(), row.n.to_string(), row.rows.to_string()];
            table.row(head.into_iter().chain(row.errors.iter().map(|error| error.error.to_string())));
        }
        format!(
            "Accuracy: largest error of y, f32, ε = 10⁻⁵, against a 106-bit reference, in units in the last place\n\
             of the larger of |y| and a tenth of the row's largest |y|.\n\n{}\n\
             Our error is {} {limit} units for all inputs.\n",
            table.render(),
            if *ok { "within" } else { "NOT within" },
        )
    }

    fn render_identity(&self) -> String {
        let identity = &self.identity;
        let headings = ["type", "norm"].into_iter().chain(identity::PASSES).chain(["differing bits"]);
        let mut table = Table::new(2, headings);
        for passes in identity.groups.chunks(identity::PASSES.len()) {
            let head = [passes[0].dtype.to_string(), passes[0].norm.to_owned()];
            let compared = passes.iter().map(|group| show::thousands(group.outputs_compared));
            let differing = show::thousands(passes.iter().map(|group| group.differing_bits).sum());
            table.row(head.into_iter().chain(compared).chain([differing]));
        }
        let skipped = &identity.skipped_isas;
        let skipped = if skipped.is_empty() { "none".to_owned() } else { skipped.join(", ") };
        let threads: Vec<_> = identity.threads.iter().map(usize::to_string).collect();
        format!(
            "Bits: outputs compared with those of plain Rust on one thread for the whole batch.\n\
             Instruction sets: {}. Skipped because this machine lacks them: {skipped}.\n\
             Threads: {}. Batch: {}.\n\
             Shapes: {}.\n\n{}\n\
             {} outputs compared, {} differing bits. (dγ and dβ, sums over the batch, are compared for the whole batch only.)\n",
            identity.isas.join(", "),
            threads.join(", "),
            identity.splits.join(", "),
            identity.shapes.join(", "),
            table.render(),
            show::thousands(identity.outputs_compared),
            show::thousands(identity.differing_bits),
        )
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.checksum {
        return print_checksum(&args);
    }
    let report = Report::new(args.quick)?;
    if args.json {
        show::print_json(&report)?;
    } else {
        show::print(&report.render())?;
    }
    report.verdict()
}

fn print_checksum(args: &Args) -> Result<(), Failure> {
    let &Args { cases, seed, json, .. } = args;
    let sum = layernorm_web::checksum(seed, cases).map_err(|error| Failure::bad_input(error.to_string()))?;
    let checksum = layernorm_web::hexadecimal(sum);
    if json {
        return show::print_json(&Checksum { command: "verify", checksum, cases, seed });
    }
    show::print(&format!("{checksum}\n"))
}
