"""The commands, a file for each: parse the options, call what does the work, print.

Importing them stays fast: each imports PyTorch and the rest of the library only when it runs.
"""
