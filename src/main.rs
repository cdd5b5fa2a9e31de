//! The `delta-load` binary: arguments in, exit code out.

fn main() -> std::process::ExitCode {
    delta_load::cli::main()
}
