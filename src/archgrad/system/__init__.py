"""What a program needs of its machine: files, memory, devices, random numbers, amounts with units."""
