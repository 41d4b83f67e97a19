"""What kernels are made of: raw memory, vector instructions, and the source files that a cached kernel rests on."""
