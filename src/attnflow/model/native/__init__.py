"""C++ kernels for the CPU, and the Python functions that call them."""
