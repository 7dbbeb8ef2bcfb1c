//! Everything that runs the program or touches the kernel, in one binary: one link step.

mod load;
